"""Models of caches: formulas of the papers over arrays.

* :class:`Population`, :func:`kant_won`, :func:`characteristic_time`: what a file cache saves a server (Kant and Won 1999, Che et al. 2002);
* :class:`Gms`: how long a page from a peer's memory takes when many nodes ask few servers (Voelker 2000, section 3.3);
* :class:`Pgms`: how long a program takes when idle nodes' disks and memory prefetch for it (chapter 4), simulated;
* :class:`Wan`: how many requests caches answer together in a wide area, by the number of their clients (Voelker 2000, chapter 5).

>>> from shoal.models import Wan
>>> Wan(rates="slow").hit_rate([500, 50e3, 5e6]).round(3).tolist()
[0.096, 0.437, 0.596]
"""

from ._shoal import (
    FileCache,
    Gms,
    GmsMeasured,
    GmsSolution,
    Pgms,
    PgmsFinished,
    Population,
    Wan,
    WanShared,
    characteristic_time,
    kant_won,
)

__all__ = [
    "FileCache",
    "Gms",
    "GmsMeasured",
    "GmsSolution",
    "Pgms",
    "PgmsFinished",
    "Population",
    "Wan",
    "WanShared",
    "characteristic_time",
    "kant_won",
]
