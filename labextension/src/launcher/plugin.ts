import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ILauncher } from '@jupyterlab/launcher';

import { COMMANDS } from '../commands';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:launcher',
  description:
    'The cards of the HPC panel, of TensorBoard and of the runs in the launcher.',
  autoStart: true,
  optional: [ILauncher],
  activate: (app: JupyterFrontEnd, launcher: ILauncher | null): void => {
    launcher?.add({ command: COMMANDS.showPanel, rank: 50 });
    launcher?.add({ command: COMMANDS.openTensorBoard, rank: 51 });
    launcher?.add({ command: COMMANDS.showRuns, rank: 52 });
  }
};

export default plugin;
