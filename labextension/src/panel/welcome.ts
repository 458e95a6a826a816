import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';

import { readPanel } from '../batch/metadata';
import { COMMANDS } from '../commands';

/** A notebook that leads through the panel has it opened beside itself. */
const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:welcome',
  description: 'Opens the HPC panel for a notebook that asks for it.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker): void => {
    const look = async (panel: NotebookPanel): Promise<void> => {
      // The address that opens a notebook brings the file browser to the front at first.
      await Promise.all([app.restored, panel.context.ready]);
      await panel.sessionContext.ready;
      if (!panel.isDisposed && readPanel(panel.context.model) === 'open') {
        await app.commands.execute(COMMANDS.showPanel);
      }
    };
    notebooks.forEach(panel => void look(panel));
    notebooks.widgetAdded.connect((_, panel) => void look(panel));
  }
};

export default plugin;
