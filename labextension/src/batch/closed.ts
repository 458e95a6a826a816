import type { Contents } from '@jupyterlab/services';

import type { StoredChoices } from './choices';
import { type IMetadata, readChoices, writeChoices } from './metadata';

type IFiles = Pick<Contents.IManager, 'get' | 'save'>;

/** A notebook that nobody has open: its choices are read from its file, and kept there. */
export class ClosedNotebook {
  private constructor(
    private readonly _files: IFiles,
    private readonly _path: string,
    private readonly _modified: string | null,
    /** What was chosen last for it, whatever shape it has. */
    readonly choices: unknown
  ) {}

  /** A file that cannot be read has no choices; the preview says what is wrong with it. */
  static async read(files: IFiles, path: string): Promise<ClosedNotebook> {
    try {
      const file = await files.get(path, { type: 'notebook', content: true });
      const choices = readChoices(metadataOf(file));
      return new ClosedNotebook(files, path, file.last_modified, choices);
    } catch {
      return new ClosedNotebook(files, path, null, undefined);
    }
  }

  /** Remember what was chosen, unless somebody else has written the file meanwhile. */
  async keep(choices: StoredChoices): Promise<void> {
    if (this._modified === null) {
      return;
    }
    const options = { type: 'notebook', content: true } as const;
    const file = await this._files.get(this._path, options);
    if (
      file.writable &&
      file.last_modified === this._modified &&
      writeChoices(metadataOf(file), choices)
    ) {
      await this._files.save(this._path, file);
    }
  }
}

function metadataOf(file: Contents.IModel): IMetadata {
  const content = file.content as { metadata?: Record<string, unknown> };
  const metadata = (content.metadata ??= {});
  return {
    getMetadata: key => metadata[key],
    setMetadata: (key, value) => {
      metadata[key] = value;
    }
  };
}
