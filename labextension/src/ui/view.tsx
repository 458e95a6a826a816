import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';

import { VisibleContext } from './hooks';

/** A React widget that tells its components whether they can be seen. */
export class View extends ReactWidget {
  constructor(private readonly _element: JSX.Element) {
    super();
    this.addClass('jp-Hpc-view');
  }

  protected override render(): JSX.Element {
    return (
      <VisibleContext.Provider value={this.isVisible}>
        {this._element}
      </VisibleContext.Provider>
    );
  }

  protected override onAfterShow(msg: Message): void {
    this.update();
  }

  protected override onAfterHide(msg: Message): void {
    this.update();
  }
}
