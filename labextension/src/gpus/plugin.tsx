import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import { LAB_COMMANDS } from '../commands';
import { removeIfSwitchedOff } from '../panel/feature';
import { Settings } from '../settings';
import { IHpcClient, IHpcPanel } from '../tokens';
import { useSettings } from '../ui/hooks';
import { View } from '../ui/view';
import { GpusSection } from './section';

interface IGpuSettings {
  minutes: number;
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:gpus',
  description: 'The section "GPUs" of the HPC panel.',
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
    const settings = new Settings<IGpuSettings>(registry, plugin.id, {
      minutes: 10
    });
    const openNotebook = (path: string): void => {
      void app.commands.execute(LAB_COMMANDS.openDocument, { path });
    };
    const Section = (): JSX.Element => (
      <GpusSection
        client={client}
        trans={trans}
        openNotebook={openNotebook}
        minutes={useSettings(settings).minutes}
      />
    );
    const section = panel.addSection({
      id: 'gpus',
      title: trans.__('GPUs'),
      rank: 20,
      content: new View(<Section />)
    });
    removeIfSwitchedOff(client, 'gpus', section);
  }
};

export default plugin;
