import type { JupyterFrontEnd } from '@jupyterlab/application';

/** The commands of the extension, for menus, shortcuts, the palette and other extensions. */
export const COMMANDS = {
  showPanel: 'jupyter-hpc:show-panel',
  /** Takes {id}: opens the view of that job; asks for the id where there is none. */
  openJob: 'jupyter-hpc:open-job',
  /** Takes {notebook}, or {origin: 'notebook'} for the current one; else shows the runs of all. */
  showRuns: 'jupyter-hpc:show-runs',
  refreshJobs: 'jupyter-hpc:refresh-jobs',
  /**
   * Takes {path}, or {origin: 'browser'} for what is selected in the file browser;
   * else the current notebook becomes a batch job. Begins with {choices} where they are given.
   */
  submitNotebook: 'hpc:run-as-batch',
  /** Takes the same; else the script in the current editor becomes a batch job. */
  submitScript: 'hpc:submit-script',
  /** Takes {logdir}, or {cwd} to look for logs there; asks for the folder where it is not given. */
  openTensorBoard: 'jupyter-hpc:open-tensorboard'
} as const;

/** Commands of JupyterLab and Notebook that we call where they exist. */
export const LAB_COMMANDS = {
  openDocument: 'docmanager:open',
  saveAll: 'docmanager:save-all',
  save: 'docmanager:save',
  goToPath: 'filebrowser:go-to-path'
} as const;

/** Save every document that is open; Notebook has one of them. */
export async function saveDocuments(app: JupyterFrontEnd): Promise<void> {
  const command = [LAB_COMMANDS.saveAll, LAB_COMMANDS.save].find(id =>
    app.commands.hasCommand(id)
  );
  if (command) {
    await app.commands.execute(command);
  }
}
