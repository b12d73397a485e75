"""The migrations of the tables, as Alembic runs them; `stores.sql.migrating` is the way in.

A revision is a module of `versions`, named ``v`` and its number. It says what it makes in its own words, and never
with the tables of `stores.sql.schema`: those are what the newest revision leads to, and change with it. On MySQL no
statement that changes tables can be rolled back, so a revision must be able to go on where one was broken off.
"""
