"""The bindings, behind one Protocol (:class:`~trio_a2a.client.ClientTransport`)."""
