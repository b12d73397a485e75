"""New identifiers."""

from uuid import UUID

from trio_a2a.types.identifier import new_id


def test_an_id_is_a_random_uuid_in_its_usual_form():
    ids = [new_id() for _ in range(1000)]
    for id_ in ids:
        parsed = UUID(id_)
        assert str(parsed) == id_
        assert parsed.version == 4
        assert parsed.variant == "specified in RFC 4122"
    assert len(set(ids)) == 1000
    assert {id_[19] for id_ in ids} == set("89ab")
