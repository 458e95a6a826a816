import { Dialog, showErrorMessage } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { ILocalPort } from '../tokens';

/** Stands for a document's name where the words around it are wanted. */
const MARK = '\u0000';

/** A dialog has its title as soon as it is drawn, if it has one; how often that is looked at. */
const LOOK_MS = 10;
const MAX_LOOKS = 10;

const UNSEEN = 'jp-Hpc-unseen';

/**
 * Keeps a save that did not reach its server from covering the page.
 *
 * JupyterLab says so in a dialog, whoever asked for the save. That one is taken back, and the
 * local port asked: while the server is away `later` hears of the document, else the dialog
 * comes after all. `trans` has JupyterLab's own words.
 */
export class QuietSaves {
  constructor(
    private readonly _port: ILocalPort,
    private readonly _later: (name: string) => void,
    trans: TranslationBundle
  ) {
    this._around = trans.__('File Save Error for %1', MARK).split(MARK);
    Dialog.tracker.widgetAdded.connect((_, dialog) => {
      if (this._port.phase !== null) {
        void this._look(dialog);
      }
    });
  }

  /** A dialog is looked at before anybody sees it. */
  private async _look(dialog: Dialog<unknown>): Promise<void> {
    dialog.addClass(UNSEEN);
    const title = await titleOf(dialog);
    const name = this._documentOf(title);
    if (name && title !== this._shown) {
      const problem = textOf(dialog, '.jp-Dialog-body');
      dialog.reject();
      await this._judge(name, title, problem);
    } else {
      dialog.removeClass(UNSEEN);
    }
  }

  private async _judge(
    name: string,
    title: string,
    problem: string
  ): Promise<void> {
    await this._port.look();
    if (this._port.phase !== 'open') {
      this._later(name);
      return;
    }
    this._shown = title;
    try {
      await showErrorMessage(title, problem);
    } finally {
      this._shown = '';
    }
  }

  /** The name in the title of a dialog about a save, "" of any other. */
  private _documentOf(title: string): string {
    const [before, after] = this._around;
    const isOurs = title.startsWith(before) && title.endsWith(after);
    return isOurs
      ? title.slice(before.length, title.length - after.length)
      : '';
  }

  private readonly _around: string[];
  /** The dialog that is to be seen. */
  private _shown = '';
}

/** The title, once it has been drawn. */
async function titleOf(dialog: Dialog<unknown>): Promise<string> {
  let looks = 0; // It may have to wait for its turn behind another one.
  while (looks < MAX_LOOKS && !dialog.isDisposed) {
    const title = textOf(dialog, '.jp-Dialog-header');
    if (title) {
      return title;
    }
    await new Promise(resolve => setTimeout(resolve, LOOK_MS));
    looks += dialog.isAttached ? 1 : 0;
  }
  return '';
}

function textOf(dialog: Dialog<unknown>, selector: string): string {
  return dialog.node.querySelector(selector)?.textContent?.trim() ?? '';
}
