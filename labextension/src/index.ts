/** The features of the extension: one plugin each, each can be disabled. */
import batch from './batch/plugin';
import cluster from './cluster/plugin';
import client from './data/plugin';
import gpus from './gpus/plugin';
import idle from './idle/plugin';
import jobNotices from './jobs/notices';
import jobs from './jobs/plugin';
import jobView from './jobview/plugin';
import launcher from './launcher/plugin';
import memory from './memory/plugin';
import panel from './panel/plugin';
import renew from './renew/plugin';
import runs from './runs/plugin';
import session from './session/plugin';
import status from './status/plugin';
import storage from './storage/plugin';
import tab from './tab/plugin';
import tensorBoard from './tensorboard/plugin';
import warnings from './warnings/plugin';
import welcome from './panel/welcome';

export * from './tokens';

export default [
  client,
  ...tab,
  panel,
  session,
  gpus,
  jobs,
  cluster,
  storage,
  status,
  warnings,
  memory,
  renew,
  idle,
  jobNotices,
  jobView,
  runs,
  batch,
  tensorBoard,
  launcher,
  welcome
];
