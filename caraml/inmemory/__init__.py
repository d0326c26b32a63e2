"""Values handed between processes of one host through shared memory: see `caraml.inmemory.pool`."""

from caraml.inmemory.inmemory import inmem_deserialize as inmem_deserialize
from caraml.inmemory.inmemory import inmem_dump as inmem_dump
from caraml.inmemory.inmemory import inmem_serialize as inmem_serialize
from caraml.inmemory.pool import Shared as Shared
from caraml.inmemory.pool import SharedPool as SharedPool
from caraml.inmemory.pool import get as get

SharedMemoryObject = Shared
