import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { View } from '../ui/view';

/** A place above everything that is as high as what it shows. */
export class NoticeArea extends View {
  constructor(content: JSX.Element, id = '') {
    super(<div className="jp-Hpc-notices">{content}</div>);
    this.id = id;
    this.addClass('jp-Hpc-notice-area');
    // A shell asks its parts for their least height, and knows nothing of what is in them.
    this._sizes = new ResizeObserver(() => this._fit());
    this._parts = new MutationObserver(() => this._watch());
  }

  /** Above the shell's own parts where it has such a place, else over the page's upper edge. */
  addTo(shell: JupyterFrontEnd.IShell): void {
    try {
      shell.add(this, 'header');
    } catch {
      this.addClass('jp-mod-floating');
      Widget.attach(this, document.body);
    }
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._parts.observe(this.node, { childList: true });
    this._watch();
  }

  protected override onBeforeDetach(msg: Message): void {
    this._parts.disconnect();
    this._sizes.disconnect();
    super.onBeforeDetach(msg);
  }

  private _watch(): void {
    this._sizes.disconnect();
    if (this.node.firstElementChild) {
      this._sizes.observe(this.node.firstElementChild);
    }
  }

  private _fit(): void {
    const height = this.node.firstElementChild?.clientHeight ?? 0;
    this.node.style.minHeight = `${height}px`;
    this.parent?.fit();
  }

  private readonly _sizes: ResizeObserver;
  private readonly _parts: MutationObserver;
}
