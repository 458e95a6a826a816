"""A training that writes files and goes on where it ended."""

from __future__ import annotations

#: Writes a file every 50 ms and a checkpoint that replaces itself; goes on where it ended.
#: Its first two parts stop after HOLD steps each, if that is set, until they are ended.
TRAINING = [
    "import json, os, time, sys\nSTEPS = 40\nFAIL_AT = -1\nHOLD = 0",
    """
start = json.load(open('checkpoint.json'))['step'] if os.path.exists('checkpoint.json') else 0
print('from', start, flush=True)
for step in range(start, STEPS):
    os.makedirs('parts', exist_ok=True)
    with open(f'parts/{step:03d}.txt', 'w') as file:
        file.write(f'{step}\\n' * 2000)
    with open('checkpoint.draft', 'w') as file:
        json.dump({'step': step + 1}, file)
    os.replace('checkpoint.draft', 'checkpoint.json')
    if step == FAIL_AT:
        sys.exit(1)
    if HOLD and step + 1 == start + HOLD <= 2 * HOLD:
        print('held at', step + 1, flush=True)
        time.sleep(600)
    time.sleep(0.05)
""",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('finished')",
]
COMPLETE = {f"parts/{n:03d}.txt": f"{n}\n".encode() * 2000 for n in range(40)}
