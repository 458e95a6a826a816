import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import { IHpcClient, IHpcPanel, ILocalPort } from '../tokens';
import { View } from '../ui/view';
import { SessionSection } from './section';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:session',
  description: 'The section "Session" of the HPC panel.',
  autoStart: true,
  requires: [IHpcPanel, IHpcClient],
  optional: [ITranslator, ILocalPort],
  activate: (
    app: JupyterFrontEnd,
    panel: IHpcPanel,
    client: IHpcClient,
    translator: ITranslator | null,
    port: ILocalPort | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    panel.addSection({
      id: 'session',
      title: trans.__('Session'),
      rank: 10,
      content: new View(
        <SessionSection client={client} port={port} trans={trans} />
      )
    });
  }
};

export default plugin;
