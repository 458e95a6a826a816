import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { ISubmittedJob } from '../data/api';
import type { IChoices } from './choices';
import { Form } from './form';
import { type BatchClient, BatchModel, type EditCells } from './model';
import { Preview } from './preview';

const CANCEL = 0;
const SUBMIT = 1;

/** Keys that mean something to the fields and tabs inside of the dialog. */
const KEYS_OF_FIELDS = ['Enter', 'ArrowLeft', 'ArrowRight'];

/** What Tab reaches, if it is shown and not switched off. */
const FOCUSABLE =
  'a[href], button, input, select, textarea, summary, [tabindex]';

/** What came of the dialog: a job, a cell to look at, or nothing. */
export interface IOutcome {
  job: ISubmittedJob | null;
  cell: number | null;
  choices: IChoices;
}

/**
 * The dialog of "Run as batch job".
 *
 * It closes when the job is in the queue; a refusal is shown inside, so that
 * nothing that was typed is lost.
 */
export class BatchDialog extends Dialog<void> {
  constructor(
    private readonly _model: BatchModel,
    private readonly _trans: TranslationBundle
  ) {
    super({
      title: _trans.__('Run %1 as batch job', nameOf(_model.path)),
      body: new Body(_model, cell => this._leaveFor(cell), _trans),
      buttons: [
        Dialog.cancelButton({ label: _trans.__('Cancel') }),
        Dialog.okButton({
          label: _trans.__('Submit'),
          ariaLabel: _trans.__('Submit the job')
        })
      ],
      defaultButton: SUBMIT,
      focusNodeSelector: 'select, input'
    });
    this.addClass('jp-Hpc-dialog');
    _model.changed.connect(this._update, this);
    this._update();
  }

  /** What came of it, once it is left. */
  get outcome(): IOutcome {
    const { _job: job, _cell: cell } = this;
    return { job, cell, choices: this._model.choices };
  }

  override dispose(): void {
    super.dispose();
    this._model.dispose();
  }

  override handleEvent(event: Event): void {
    if (event.type === 'keydown' && (event as KeyboardEvent).key === 'Tab') {
      this._keepInside(event as KeyboardEvent);
      return;
    }
    const inside = (event.target as Element).closest?.('.jp-Dialog-body');
    if (
      event.type === 'keydown' &&
      inside &&
      KEYS_OF_FIELDS.includes((event as KeyboardEvent).key)
    ) {
      return; // A field, tab or link takes it, not the buttons of the dialog.
    }
    if (event.type === 'input') {
      this._update(); // JupyterLab judges by the fields alone, we by the preview.
      return;
    }
    super.handleEvent(event);
  }

  override resolve(index: number = SUBMIT): void {
    if (index === CANCEL) {
      super.resolve(CANCEL);
    } else {
      void this._submit();
    }
  }

  private async _submit(): Promise<void> {
    const job = await this._model.submit();
    if (job) {
      this._job = job;
      super.resolve(SUBMIT);
    }
  }

  /**
   * Tab goes round inside of the dialog. JupyterLab's own dialog looks once for
   * its first field, before ours are drawn, and would never come back to them.
   */
  private _keepInside(event: KeyboardEvent): void {
    const reached = [
      ...this.node.querySelectorAll<HTMLElement>(FOCUSABLE)
    ].filter(
      element =>
        element.tabIndex >= 0 &&
        !(element as HTMLButtonElement).disabled &&
        (element.checkVisibility?.() ?? true)
    );
    const [from, to] = event.shiftKey
      ? [reached[0], reached.at(-1)]
      : [reached.at(-1), reached[0]];
    if (to && document.activeElement === from) {
      event.preventDefault();
      event.stopPropagation();
      to.focus();
    }
  }

  private _leaveFor(cell: number): void {
    this._cell = cell;
    this.reject();
  }

  private readonly _update = (): void => {
    const button = this.node.querySelector<HTMLButtonElement>(
      '.jp-Dialog-footer .jp-mod-accept'
    );
    if (button) {
      button.disabled = !this._model.isReady;
      button.title = this._model.isReady
        ? ''
        : this._trans.__('The form or the preview says what is missing');
    }
  };

  private _job: ISubmittedJob | null = null;
  private _cell: number | null = null;
}

/** Form and preview side by side. */
class Body extends ReactWidget {
  constructor(
    private readonly _model: BatchModel,
    private readonly _showCell: (cell: number) => void,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Hpc-batch');
    _model.changed.connect(this._onChanged);
  }

  override dispose(): void {
    this._model.changed.disconnect(this._onChanged);
    super.dispose();
  }

  protected override render(): JSX.Element {
    return (
      <>
        <Form model={this._model} trans={this._trans} />
        <Preview
          model={this._model}
          showCell={this._showCell}
          trans={this._trans}
        />
      </>
    );
  }

  private readonly _onChanged = (): void => this.update();
}

/** Show the dialog for a notebook and wait until it is left. */
export async function askAbout(
  client: BatchClient,
  path: string,
  choices: IChoices,
  trans: TranslationBundle,
  edit: EditCells | null = null
): Promise<IOutcome> {
  const model = new BatchModel(client, path, choices, edit);
  const dialog = new BatchDialog(model, trans);
  void model.open();
  await dialog.launch();
  return dialog.outcome;
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
