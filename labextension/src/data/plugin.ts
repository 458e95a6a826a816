import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { IHpcClient } from '../tokens';
import { HpcClient } from './client';

const plugin: JupyterFrontEndPlugin<IHpcClient> = {
  id: 'jupyter-hpc:client',
  description: 'Asks the server extension, for all other features.',
  autoStart: true,
  provides: IHpcClient,
  activate: (app: JupyterFrontEnd): IHpcClient =>
    new HpcClient(app.serviceManager.serverSettings)
};

export default plugin;
