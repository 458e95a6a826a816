import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import { IHpcClient, IHpcPanel } from '../tokens';
import { View } from '../ui/view';
import { ClusterSection } from './section';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:cluster',
  description: 'The section "Cluster" of the HPC panel.',
  autoStart: true,
  requires: [IHpcPanel, IHpcClient],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    panel: IHpcPanel,
    client: IHpcClient,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    panel.addSection({
      id: 'cluster',
      title: trans.__('Cluster'),
      rank: 35,
      content: new View(<ClusterSection client={client} trans={trans} />)
    });
  }
};

export default plugin;
