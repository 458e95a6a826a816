import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { refreshIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { COMMANDS } from '../commands';
import { removeIfSwitchedOff } from '../panel/feature';
import { IHpcClient, IHpcPanel } from '../tokens';
import { View } from '../ui/view';
import { JobsSection } from './section';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:jobs',
  description: 'The section "Jobs" of the HPC panel.',
  autoStart: true,
  requires: [IHpcPanel, IHpcClient],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    panel: IHpcPanel,
    client: IHpcClient,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    app.commands.addCommand(COMMANDS.refreshJobs, {
      label: trans.__('Refresh the List of Jobs'),
      caption: trans.__('Ask Slurm now, as far as the site allows it'),
      icon: refreshIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => client.refreshJobs()
    });
    palette?.addItem({
      command: COMMANDS.refreshJobs,
      category: trans.__('HPC')
    });
    const section = panel.addSection({
      id: 'jobs',
      title: trans.__('Jobs'),
      rank: 30,
      content: new View(
        <JobsSection
          client={client}
          trans={trans}
          openJob={id => {
            if (app.commands.hasCommand(COMMANDS.openJob)) {
              void app.commands.execute(COMMANDS.openJob, { id });
            }
          }}
        />
      )
    });
    removeIfSwitchedOff(client, 'jobs', section);
  }
};

export default plugin;
