"""Planning, as pure functions: a spec and a target give a Plan or every Problem. No backend is imported."""
