"""What a test has set up in a broker: faults and stops, and the conditions that release what they hold.

Which request a rule is for is decided by pure functions (`faults.py`); `injector.py` carries faults out between router and
handlers, as an interceptor, and `stops.py` is called at the points that it names.
"""
