/** What JupyterLab's packages expect of a browser and jsdom does not have. */
class SilentResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

const missing: Record<string, unknown> = {
  DragEvent: class extends Event {},
  ResizeObserver: SilentResizeObserver,
  matchMedia: () => ({
    matches: false,
    addEventListener: () => undefined,
    removeEventListener: () => undefined
  }),
  requestIdleCallback: (task: () => void) => setTimeout(task, 0),
  cancelIdleCallback: (id: number) => clearTimeout(id)
};

for (const [name, value] of Object.entries(missing)) {
  for (const place of [globalThis, window]) {
    if (!(place as unknown as Record<string, unknown>)[name]) {
      Object.defineProperty(place, name, { value, writable: true });
    }
  }
}
