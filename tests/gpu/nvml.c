/* The symbols of NVIDIA's management library that jupyter-hpc uses, on invented GPUs.
 *
 * Loaded by the real Python binding. Environment variables, read at each call, say what
 * the GPUs are like:
 *   FAKE_NVML_GPUS=8                     how many
 *   FAKE_NVML_MIG=1,2                    GPUs that are cut into instances 0 and 2
 *   FAKE_NVML_FORBIDDEN=0,1              GPUs that this job may not open
 *   FAKE_NVML_LOST=3                     GPUs that have fallen off the bus
 *   FAKE_NVML_FAIL=nvmlInitWithFlags:9   functions that answer with an error code
 *   FAKE_NVML_HANG=nvmlDeviceGetName     a function that does not return …
 *   FAKE_NVML_HANG_WHILE=/path           … as long as this file exists (else for ever)
 *   FAKE_NVML_PROCESS=0:1234:1048576     a process: GPU, pid, bytes
 *   FAKE_NVML_LOAD=37                    the load of every GPU
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  OK = 0,
  INVALID = 2,
  NOT_SUPPORTED = 3,
  NO_PERMISSION = 4,
  NOT_FOUND = 6,
  TOO_SMALL = 7,
  LOST = 15,
};

#define MOST 16
#define INSTANCES 7

struct device {
  int gpu;
  int instance; /* -1: the whole GPU */
};
typedef struct device *device_t;

static struct device boards[MOST];
static struct device instances[MOST][INSTANCES];

static int listed(const char *variable, int number) {
  const char *text = getenv(variable);
  while (text && *text) {
    if (atoi(text) == number) return 1;
    text = strchr(text, ',');
    if (text) text++;
  }
  return 0;
}

static int count(void) {
  const char *text = getenv("FAKE_NVML_GPUS");
  int gpus = text ? atoi(text) : 8;
  return gpus < MOST ? gpus : MOST;
}

/* Hang or fail as told; every function passes here first. */
static int enter(const char *function) {
  const char *hang = getenv("FAKE_NVML_HANG");
  const char *while_there = getenv("FAKE_NVML_HANG_WHILE");
  const char *fail = getenv("FAKE_NVML_FAIL");
  size_t length = strlen(function);
  if (hang && strcmp(hang, function) == 0)
    while (!while_there || access(while_there, F_OK) == 0) usleep(20000);
  while (fail && *fail) {
    if (strncmp(fail, function, length) == 0 && fail[length] == ':') return atoi(fail + length + 1);
    fail = strchr(fail, ',');
    if (fail) fail++;
  }
  return OK;
}

#define ENTER                          \
  do {                                 \
    int refused = enter(__func__);     \
    if (refused) return refused;       \
  } while (0)

#define ENTER_DEVICE(device)                                  \
  do {                                                        \
    ENTER;                                                    \
    if (listed("FAKE_NVML_LOST", (device)->gpu)) return LOST; \
  } while (0)

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  ENTER;
  for (int gpu = 0; gpu < MOST; gpu++) {
    boards[gpu].gpu = gpu;
    boards[gpu].instance = -1;
    for (int part = 0; part < INSTANCES; part++) {
      instances[gpu][part].gpu = gpu;
      instances[gpu][part].instance = part;
    }
  }
  return OK;
}

int nvmlShutdown(void) {
  ENTER;
  return OK;
}

const char *nvmlErrorString(int code) {
  static char text[40];
  snprintf(text, sizeof text, "invented error %d", code);
  return text;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
  ENTER;
  snprintf(version, length, "999.42");
  return OK;
}

int nvmlDeviceGetCount_v2(unsigned *gpus) {
  ENTER;
  *gpus = (unsigned)count();
  return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
  ENTER;
  if ((int)index >= count()) return INVALID;
  if (listed("FAKE_NVML_FORBIDDEN", (int)index)) return NO_PERMISSION;
  *device = &boards[index];
  return OK;
}

static int describe(device_t device, char *text, unsigned length) {
  if (device->instance < 0)
    snprintf(text, length, "GPU-00000000-%04d", device->gpu);
  else
    snprintf(text, length, "MIG-00000000-%04d-%d", device->gpu, device->instance);
  return OK;
}

int nvmlDeviceGetUUID(device_t device, char *uuid, unsigned length) {
  ENTER;
  return describe(device, uuid, length);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
  char text[80];
  ENTER;
  for (int gpu = 0; gpu < count(); gpu++) {
    describe(&boards[gpu], text, sizeof text);
    if (strcmp(text, uuid) == 0) return *device = &boards[gpu], OK;
    for (int part = 0; part < INSTANCES; part++) {
      describe(&instances[gpu][part], text, sizeof text);
      if (strcmp(text, uuid) == 0 && listed("FAKE_NVML_MIG", gpu) && part % 2 == 0 && part < 4)
        return *device = &instances[gpu][part], OK;
    }
  }
  return NOT_FOUND;
}

int nvmlDeviceGetName(device_t device, char *name, unsigned length) {
  ENTER;
  snprintf(name, length, device->instance < 0 ? "Invented A100" : "Invented A100 MIG 1g.5gb");
  return OK;
}

int nvmlDeviceGetMigMode(device_t device, unsigned *current, unsigned *pending) {
  ENTER;
  if (device->gpu == 7) return NOT_SUPPORTED; /* an older GPU among newer ones */
  *current = *pending = (unsigned)listed("FAKE_NVML_MIG", device->gpu);
  return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t device, unsigned *parts) {
  (void)device;
  ENTER;
  *parts = INSTANCES;
  return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device_t device, unsigned index, device_t *part) {
  ENTER;
  if (index != 0 && index != 2) return NOT_FOUND;
  *part = &instances[device->gpu][index];
  return OK;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t part, device_t *device) {
  ENTER;
  *device = &boards[part->gpu];
  return OK;
}

struct memory {
  unsigned long long total, free, used;
};

struct memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo(device_t device, struct memory *memory) {
  ENTER_DEVICE(device);
  memory->total = 40ull << 30;
  memory->used = (unsigned long long)(device->gpu + 1) << 30;
  memory->free = memory->total - memory->used;
  return OK;
}

int nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_v2 *memory) {
  ENTER_DEVICE(device);
  memory->total = (device->instance < 0 ? 40ull : 5ull) << 30;
  memory->reserved = 512ull << 20;
  memory->used = (unsigned long long)(device->gpu + 1) << 29;
  memory->free = memory->total - memory->used;
  return OK;
}

struct rates {
  unsigned gpu, memory;
};

int nvmlDeviceGetUtilizationRates(device_t device, struct rates *rates) {
  const char *load = getenv("FAKE_NVML_LOAD");
  ENTER_DEVICE(device);
  if (device->instance >= 0) return NOT_SUPPORTED;
  rates->gpu = load ? (unsigned)atoi(load) : 10u * (unsigned)device->gpu;
  rates->memory = 5;
  return OK;
}

int nvmlDeviceGetPowerUsage(device_t device, unsigned *milliwatts) {
  ENTER_DEVICE(device);
  *milliwatts = 100500;
  return OK;
}

int nvmlDeviceGetEnforcedPowerLimit(device_t device, unsigned *milliwatts) {
  ENTER_DEVICE(device);
  *milliwatts = 400000;
  return OK;
}

int nvmlDeviceGetTemperature(device_t device, unsigned sensor, unsigned *celsius) {
  (void)sensor;
  ENTER_DEVICE(device);
  *celsius = 40u + (unsigned)device->gpu;
  return OK;
}

int nvmlDeviceGetClockInfo(device_t device, unsigned kind, unsigned *megahertz) {
  ENTER_DEVICE(device);
  *megahertz = kind == 2 ? 1215 : 1410;
  return OK;
}

int nvmlDeviceGetMaxClockInfo(device_t device, unsigned kind, unsigned *megahertz) {
  (void)kind;
  ENTER_DEVICE(device);
  *megahertz = 1980;
  return OK;
}

struct process {
  unsigned pid;
  unsigned long long memory;
  unsigned instance, part;
};

int nvmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned *found,
                                            struct process *processes) {
  const char *text = getenv("FAKE_NVML_PROCESS");
  int gpu;
  unsigned pid;
  unsigned long long memory;
  ENTER_DEVICE(device);
  if (!text || sscanf(text, "%d:%u:%llu", &gpu, &pid, &memory) != 3 || gpu != device->gpu) {
    *found = 0;
    return OK;
  }
  if (*found < 1 || !processes) {
    *found = 1;
    return TOO_SMALL;
  }
  *found = 1;
  processes[0].pid = pid;
  processes[0].memory = memory;
  processes[0].instance = processes[0].part = 0;
  return OK;
}
