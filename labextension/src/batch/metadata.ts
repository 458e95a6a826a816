import type { StoredChoices } from './choices';

/** Where a notebook keeps what was chosen last. */
const KEY = 'jupyter-hpc';

/** The part of a notebook's model that holds its metadata. */
export interface IMetadata {
  getMetadata(key: string): unknown;
  setMetadata(key: string, value: unknown): void;
}

/** What was chosen last for this notebook, whatever shape it has. */
export function readChoices(metadata: IMetadata): unknown {
  return tableOf(metadata)['batch'];
}

/** What it wants of the panel: `open`, or nothing that we know. */
export function readPanel(metadata: IMetadata): unknown {
  return tableOf(metadata)['panel'];
}

/** Remember what was chosen; true if that changed the notebook. */
export function writeChoices(
  metadata: IMetadata,
  batch: StoredChoices
): boolean {
  const before = tableOf(metadata);
  if (JSON.stringify(before['batch']) === JSON.stringify(batch)) {
    return false;
  }
  metadata.setMetadata(KEY, { ...before, batch });
  return true;
}

function tableOf(metadata: IMetadata): Record<string, unknown> {
  const value = metadata.getMetadata(KEY);
  return value !== null && typeof value === 'object' && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}
