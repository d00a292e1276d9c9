"""The tables of a ledger."""

from __future__ import annotations

from masquerade._optional import sql

TABLES = sql.MetaData()
BALANCE_TABLES = sql.MetaData()  # what only a ledger of many entries has
LEDGER = sql.Table(
    "ledger",
    TABLES,
    sql.Column("id", sql.String(32), primary_key=True),
    sql.Column("key", sql.String(64), nullable=False),
    sql.Column("tip_sequence", sql.Integer, nullable=False),
    sql.Column("tip_head", sql.String(64), nullable=False),
)
ENTRIES = sql.Table(
    "entries",
    TABLES,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("time", sql.String(40), nullable=False),
    sql.Column("kind", sql.String(16), nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
    sql.Column("head", sql.String(64), nullable=False),
)
CONTENTS = sql.Table(
    "contents",  # apart from the chain, so that no head depends on what a file holds
    TABLES,
    sql.Column("content", sql.String(64), primary_key=True),
    sql.Column("member", sql.String(32), nullable=False),
    sql.Column("token", sql.String(32), nullable=False, unique=True),  # named in the chain
    sql.Column("mac", sql.String(64), nullable=False),
)
FOOTAGE_HASHES = sql.Table(
    "looks",  # of films, sealed; older ledgers get it when the first look is kept
    TABLES,
    sql.Column("token", sql.String(32), primary_key=True),
    sql.Column("sealed", sql.Text, nullable=False),
    sql.Column("mac", sql.String(64), nullable=False),
)
BALANCE = sql.Table(
    "balance",  # of no row or one
    BALANCE_TABLES,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("head", sql.String(64), nullable=False),
    sql.Column("time", sql.String(40), nullable=False),
    sql.Column("form", sql.String(40), nullable=False),
    sql.Column("root", sql.String(64), nullable=False),
    sql.Column("mac", sql.String(64), nullable=False),
)
PAGES = sql.Table(
    "pages",
    BALANCE_TABLES,
    sql.Column("name", sql.String(40), primary_key=True),
    sql.Column("space", sql.String(16), nullable=False),
    sql.Column("text", sql.Text, nullable=False),
)
