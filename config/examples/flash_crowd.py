"""Write flash_crowd.csv: the requests of a day with a flash crowd at 14:00, per second, every ten minutes.

    python config/examples/flash_crowd.py > config/examples/flash_crowd.csv

A day and night cycle between 0.3 and 1.3 requests per second; at 14:00 the rate doubles within ten minutes and falls
back over two hours.
"""

import math

print("time,rate")
for step in range(24 * 6):
    hour = step / 6
    cycle = 0.8 - 0.5 * math.cos(2 * math.pi * (hour - 4) / 24)
    crowd = 1.3 * math.exp(-(hour - 14) / 0.7) if hour >= 14 else 0.0
    print(f"{hour:.4f},{cycle + crowd:.4f}")
