"""What Alembic runs: the revisions, over the connection and in the transaction that it is given."""

from alembic import context

from trio_a2a.stores.sql.schema import schema_version

context.configure(connection=context.config.attributes["connection"], version_table=schema_version.name)
context.run_migrations()
