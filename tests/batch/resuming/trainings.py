"""Trainings as people write them; each as cells, with the names to compare at the end."""

from __future__ import annotations

#: What all of them begin with; small enough for milliseconds.
SETUP = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(3)
data = TensorDataset(torch.randn(20, 3), torch.randn(20, 1))
loader = DataLoader(data, batch_size=4, shuffle=True)
check = DataLoader(data, batch_size=10)
criterion = nn.MSELoss()"""
MODEL = """\
model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 1))
optimizer = optim.Adam(model.parameters(), lr=0.01)"""

PLAIN = [
    SETUP,
    MODEL,
    """\
scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
losses = []
# The loop.
for epoch in range(3):
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    scheduler.step()
    losses.append(running / len(loader))
    print(f'''epoch
{epoch}''', running)
    # to the end
print(losses)""",
]

#: A function for an epoch, one for the test, as the examples of torch have it.
FUNCTIONS = [
    SETUP,
    "lr = 0.01\nEPOCHS = 3",
    """\
def train(model, loader, optimizer, epoch):
    model.train()
    total = 0
    for batch, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)

def test(model):
    model.eval()
    with torch.no_grad():
        return sum(criterion(model(x), y).item() for x, y in check)""",
    """\
net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
best = float("inf")
history = {"loss": [], "test": []}""",
    """\
%matplotlib inline
for epoch in range(1, EPOCHS + 1):
    history["loss"].append(train(net, loader, optimizer, epoch))
    score = test(net)
    history["test"].append(score)
    if score < best:
        best = score
        torch.save(net.state_dict(), "best.pt")
    print(epoch, score)""",
]

#: Everything in one function, called once.
IN_A_FUNCTION = [
    SETUP,
    MODEL,
    """\
def fit(net, opt, epochs=2):
    seen = 0
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader, 1):
            opt.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            opt.step()
            seen += len(x)
            last = (i, seen)
    return last""",
    "last = fit(model, optimizer, epochs=3)",
]

#: Two networks with an optimizer each.
GAN = [
    SETUP,
    """\
G, D = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())
optD = optim.Adam(D.parameters(), lr=0.01)
optG = optim.Adam(G.parameters(), lr=0.01)
bce = nn.BCELoss()
img_list, iters = [], 0
d_losses = []""",
    """\
for epoch in range(3):
    for i, (real, _) in enumerate(loader):
        optD.zero_grad()
        ones = torch.ones(len(real), 1)
        fake = G(torch.randn(len(real), 2))
        loss_d = bce(D(real), ones) + bce(D(fake.detach()), 1 - ones)
        loss_d.backward()
        optD.step()
        optG.zero_grad()
        loss_g = bce(D(fake), ones)
        loss_g.backward()
        optG.step()
        d_losses.append(loss_d.item())
        iters += 1""",
]

#: Steps that are no epochs.
STEPS = [
    SETUP,
    MODEL,
    """\
x, y = data.tensors
for t in range(12):
    prediction = model(x)
    loss = criterion(prediction, y)
    optimizer.zero_grad(); loss.backward()
    optimizer.step()
    if t % 5 == 0: print(t, loss.item())""",
]

#: Phases, sums of tensors, the best weights at the end.
PHASES = [
    SETUP,
    MODEL,
    """\
import copy, time
loaders = {"train": loader, "val": check}
def train_model(model, criterion, optimizer, num_epochs=25):
    since = time.time()
    best_wts = copy.deepcopy(model.state_dict())
    best_loss = 1e9
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            running = 0.0
            corrects = 0
            for x, y in loaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    out = model(x)
                    loss = criterion(out, y)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running += loss.item() * x.size(0)
                corrects += torch.sum(out > y)
            epoch_loss = running / 20
            if phase == "val" and epoch_loss < best_loss:
                best_loss = epoch_loss
                best_wts = copy.deepcopy(model.state_dict())
    model.load_state_dict(best_wts)
    return model""",
    "model = train_model(model, criterion, optimizer, num_epochs=3)",
]

#: By name: the cells, and what has to be equal in the end.
TRAININGS = {
    "plain": (PLAIN, ("model", "optimizer", "scheduler", "losses")),
    "functions": (FUNCTIONS, ("net", "optimizer", "history", "best")),
    "in a function": (IN_A_FUNCTION, ("model", "optimizer", "last")),
    "two networks": (GAN, ("G", "D", "optD", "optG", "d_losses", "iters")),
    "steps": (STEPS, ("model", "optimizer")),
    "phases": (PHASES, ("model", "optimizer")),
}
