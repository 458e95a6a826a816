import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'jsdom',
    // JupyterLab's modules are evaluated once for each worker instead of once for each file.
    isolate: false,
    include: ['src/**/*.test.{ts,tsx}'],
    css: false,
    // A busy machine may need more than the usual five seconds.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    setupFiles: ['./vitest.setup.ts'],
    // These packages publish extension-less ES modules with .svg and .css
    // imports, which only vite's own transform understands.
    server: {
      deps: {
        inline: [/@jupyterlab\//, /@lumino\//, /@jupyter\//, /@microsoft\//]
      }
    }
  }
});
