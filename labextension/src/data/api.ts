/**
 * Short names for the types that the build makes of docs/developers/openapi.yaml
 * (`npm run build:types`). Nothing is declared here: what an answer looks like is
 * said there, and a test holds the server to it.
 */
import type { components, operations } from '../../generated/openapi';

type Schemas = components['schemas'];

/** A sentence about what went wrong, and what to do next. */
export type IProblem = Schemas['Error'];
/** Data that can be old. */
export type IDated = Pick<Schemas['Memory'], 'taken_at' | 'age'>;

export type ISession = Schemas['Session'];
export type ISessionJob = Schemas['SessionJob'];
export type IFeatures = Schemas['Features'];
export type IMemory = Schemas['Memory'];
export type IMemoryKill = Schemas['MemoryKill'];

export type IGpus = Schemas['Gpus'];
export type IGpu = Schemas['Gpu'];
export type INodes = Schemas['Nodes'];
export type INodeGpus = Schemas['NodeGpus'];
export type IGpuProcess = Schemas['GpuProcess'];
export type INotebook = Schemas['Notebook'];
export type IGpuHistory = Schemas['GpuHistory'];
export type IGpuColumns = Schemas['GpuColumns'];

export type Phase = Schemas['Phase'];
export type IJobs = Schemas['Jobs'];
export type IJobsUpdate = Schemas['JobsUpdate'];
export type IQueuedJob = Schemas['Job'];
export type IFinished = Schemas['Finished'];
export type IFinishedJob = Schemas['FinishedJob'];
/** What a waiting, running or finished job has in common. */
export type IJobBase = Pick<
  IQueuedJob,
  keyof IQueuedJob & keyof IFinishedJob & keyof Schemas['JobRecord']
>;
export type IJobView = Schemas['JobView'];
export type IJobReport = Schemas['JobReport'];
export type ReportKind = 'html' | 'json';
export type IRuns = Schemas['Runs'];
export type ISubmit = Schemas['Submit'];
export type IRun = Schemas['Run'];
/** A number that runs have reached. */
export type IMetric = Schemas['Metric'];
export type IRunContents = Schemas['RunContents'];
export type IRunHolding = Schemas['RunHolding'];
export type IRunToDelete = Schemas['RunToDelete'];
export type IRunAgain = Schemas['RunAgain'];
export type IJobOverview = Schemas['JobOverview'];
export type IShownRun = Schemas['ShownRun'];
export type IRunProgress = Schemas['RunProgress'];
export type IFigure = Schemas['Figure'];
/** The numbers of runs as curves. */
export type IRunCurves = Schemas['RunCurves'];
export type ICurve = Schemas['Curve'];
export type ICurveLine = Schemas['CurveLine'];
export type ILogPiece = Schemas['LogPiece'];
export type LogStream = ILogPiece['stream'];
export type JobAction = operations['actOnJob']['parameters']['path']['action'];
export type IActionResult = Schemas['ActionResult'];

export type ICluster = Schemas['Cluster'];
export type IPartitionUse = Schemas['PartitionUse'];
export type IAccountUse = Schemas['AccountUse'];
export type IStorageReport = Schemas['StorageReport'];
export type IStorageArea = Schemas['StorageArea'];
export type IBudget = Schemas['Budget'];
export type IAccount = Schemas['Account'];
export type IPartitions = Schemas['Partitions'];
export type IPartition = Schemas['Partition'];
export type IModules = Schemas['Modules'];

export type IBatchRequest = Schemas['BatchRequest'];
export type IResources = Schemas['Resources'];
export type IJobRequest = Schemas['JobRequest'];
export type Python = Schemas['Python'];
export type IBatchPreview = Schemas['BatchPreview'];
export type Mode = IBatchPreview['mode'];
export type IParameter = Schemas['Parameter'];
export type IVerification = Schemas['Verification'];
export type IFinding = Schemas['Finding'];
/** What a training lacks to go on where it ended. */
export type IProposal = Schemas['Proposal'];
/** What was found before the queue. */
export type IPreflightFinding = Schemas['PreflightFinding'];
export type ISubmittedJob = Schemas['SubmittedJob'];
/** A notebook for a few epochs, in this session. */
export type ITrial = Schemas['Trial'];
export type ITrialRequest = Schemas['TrialRequest'];
export type ITrialResult = Schemas['TrialResult'];

export type IRestored = Schemas['Restored'];
export type ICarriedKernel = Schemas['CarriedKernel'];
export type ITensorBoardChoice = Schemas['TensorBoardChoice'];
export type ITensorBoard = Schemas['TensorBoard'];

export type IWatch = Schemas['Watch'];
export type IStreamMessage = Schemas['StreamMessage'];
