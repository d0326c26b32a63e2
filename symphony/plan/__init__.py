"""Planning, as pure functions: a spec and a backend's limits give a Plan or every Problem."""
