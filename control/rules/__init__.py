"""Rules that a test adds to a broker: faults and stops, and conditions that release held requests.

Pure functions in `faults.py` decide which requests a rule matches. `injector.py` is an interceptor between router and handlers
that carries out faults. `stops.py` is called at the points listed in `points.py`.
"""
