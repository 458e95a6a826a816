/** The commands of the extension, for menus, shortcuts, the palette and other extensions. */
export const COMMANDS = {
  showPanel: 'jupyter-hpc:show-panel',
  /** Takes {id}: opens the view of that job; asks for the id where there is none. */
  openJob: 'jupyter-hpc:open-job',
  refreshJobs: 'jupyter-hpc:refresh-jobs',
  /**
   * Takes {path}, or {origin: 'browser'} for what is selected in the file browser;
   * else the current notebook becomes a batch job.
   */
  submitNotebook: 'hpc:run-as-batch'
} as const;

/** Commands of JupyterLab and Notebook that we call where they exist. */
export const LAB_COMMANDS = {
  openDocument: 'docmanager:open',
  saveAll: 'docmanager:save-all',
  save: 'docmanager:save',
  goToPath: 'filebrowser:go-to-path'
} as const;
