import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { COMMANDS } from '../commands';
import { hpcIcon } from '../icons';
import { IHpcPanel } from '../tokens';
import { HpcPanel } from './widget';

const plugin: JupyterFrontEndPlugin<IHpcPanel> = {
  id: 'jupyter-hpc:panel',
  description: 'The HPC side panel, to which features add their sections.',
  autoStart: true,
  provides: IHpcPanel,
  optional: [
    ITranslator,
    IStateDB,
    ILayoutRestorer,
    ICommandPalette,
    ILabShell
  ],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    state: IStateDB | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    labShell: ILabShell | null
  ): IHpcPanel => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const panel = new HpcPanel(state);
    panel.title.icon = hpcIcon;
    panel.title.caption = trans.__('HPC: session, GPUs, jobs and storage');
    panel.node.setAttribute('role', 'region');
    panel.node.setAttribute('aria-label', trans.__('HPC'));
    app.shell.add(panel, 'left', { rank: 650 });
    restorer?.add(panel, panel.id);

    app.commands.addCommand(COMMANDS.showPanel, {
      label: trans.__('Show the HPC Panel'),
      caption: trans.__('Session, GPUs, jobs and storage of this cluster'),
      icon: hpcIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => app.shell.activateById(panel.id)
    });
    palette?.addItem({
      command: COMMANDS.showPanel,
      category: trans.__('HPC')
    });
    return panel;
  }
};

export default plugin;
