import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import { removeIfSwitchedOff } from '../panel/feature';
import { Settings } from '../settings';
import { IHpcClient, IHpcPanel } from '../tokens';
import { View } from '../ui/view';
import { StorageSection } from './section';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:storage',
  description: 'The section "Storage" of the HPC panel.',
  autoStart: true,
  requires: [IHpcPanel, IHpcClient],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    panel: IHpcPanel,
    client: IHpcClient,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const settings = new Settings(registry, plugin.id, { minutes: 10 });
    settings.changed.connect(() => {
      client.storage.interval = 60_000 * settings.value.minutes;
    });
    const section = panel.addSection({
      id: 'storage',
      title: trans.__('Storage'),
      rank: 40,
      content: new View(<StorageSection client={client} trans={trans} />)
    });
    removeIfSwitchedOff(client, 'storage', section);
  }
};

export default plugin;
