"""Calls that write files: which of their arguments is the path, and what they do to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jupyter_hpc.batch.convert.context import API

#: `file`: that one is written. `folder`: it is made or gets new files. `below`: whatever is
#: in that folder can be written. `mode`: written, if another argument says so.
Effect = Literal["file", "folder", "below", "mode"]


@dataclass(frozen=True)
class Call:
    """Where a call has the path that it writes."""

    effect: Effect = "file"
    #: The position of the path; None: the object whose method it is.
    at: int | None = 0
    #: Names under which the path can be given as well.
    names: tuple[str, ...] = ()
    #: What is written where no path is given.
    default: str = ""
    #: Added to a name that does not end with it.
    suffix: str = ""
    #: Position and default of the mode, for `mode`.
    mode_at: int = 1
    mode: str = "r"


def _all(words: str, call: Call) -> dict[str, Call]:
    return dict.fromkeys(words.split(), call)


#: By the whole name, with the usual names of modules.
FUNCTIONS: dict[str, Call] = {
    **_all(
        "open io.open codecs.open gzip.open bz2.open lzma.open tarfile.open "
        "tarfile.TarFile zipfile.ZipFile ZipFile h5py.File wave.open rasterio.open "
        "tables.open_file netCDF4.Dataset tf.io.gfile.GFile GFile fsspec.open",
        Call("mode", names=("file", "name", "filename", "fp")),
    ),
    **_all("shelve.open dbm.open zarr.open", Call("mode", mode="a", names=("filename", "store"))),
    "pd.HDFStore": Call("mode", mode="a", names=("path",)),
    **_all("np.memmap numpy.memmap", Call("mode", names=("filename",), mode_at=2, mode="r+")),
    **_all("sqlite3.connect", Call(names=("database",))),
    **_all("np.save numpy.save jnp.save", Call(names=("file",), suffix=".npy")),
    **_all(
        "np.savez numpy.savez np.savez_compressed numpy.savez_compressed",
        Call(names=("file",), suffix=".npz"),
    ),
    **_all("torch.save torch.jit.save", Call(at=1, names=("f",))),
    **_all("joblib.dump torchaudio.save_with_torchcodec", Call(at=1, names=("filename",))),
    **_all("torchaudio.save torchvision.io.write_video", Call(names=("uri", "filename"))),
    **_all("plt.savefig pylab.savefig", Call(names=("fname",))),
    **_all("pq.write_table", Call(at=1, names=("where",))),
    **_all("OmegaConf.save", Call(at=1, names=("f",))),
    **_all("np.ndarray.tofile numpy.ndarray.tofile", Call(at=1, names=("fid",))),
    **_all("os.rename os.replace", Call(at=1, names=("dst",))),
    **_all("os.symlink os.link", Call(at=1, names=("dst",))),
    **_all("os.mkdir os.makedirs", Call("folder", names=("path", "name"))),
    **_all("os.truncate", Call(names=("path",))),
    **_all("shutil.copy shutil.copy2 shutil.copyfile shutil.move", Call(at=1, names=("dst",))),
    "shutil.copytree": Call("below", at=1, names=("dst",)),
    "shutil.rmtree": Call("below", names=("path",)),
    "shutil.unpack_archive": Call("below", at=1, names=("extract_dir",), default="."),
    **_all("urllib.request.urlretrieve urlretrieve", Call(at=1, names=("filename",))),
    "gdown.download": Call(at=1, names=("output",)),
    **_all("logging.basicConfig", Call(at=None, names=("filename",))),
    "wandb.init": Call("folder", at=None, names=("dir",), default="wandb"),
    **_all("mlflow.start_run mlflow.autolog", Call("folder", at=None, default="mlruns")),
    f"{API}.write_file": Call(),
    "tf.saved_model.save": Call("below", at=1, names=("export_dir",)),
    "torch.onnx.export": Call(at=2, names=("f",)),
    **_all("nib.save nibabel.save", Call(at=1, names=("filename",))),
    **_all("sf.write soundfile.write wavfile.write", Call(names=("file", "filename"))),
    "scipy.io.wavfile.write": Call(names=("filename",)),
}

#: By the last name alone: functions that others import by name, classes, and methods.
NAMES: dict[str, Call] = {
    **_all("savez savez_compressed", Call(names=("file",), suffix=".npz")),
    **_all("savetxt", Call(names=("fname",))),
    **_all("imsave imwrite mimsave write_png savemat", Call(names=("fname", "uri"))),
    "save_image": Call(at=1, names=("fp",)),
    **_all("save_file write_feather WriteImage", Call(at=1, names=("filename", "dest"))),
    "open_memmap": Call("mode", names=("filename",), mode="r+"),
    **_all("VideoWriter", Call(names=("filename",))),
    **_all("FileHandler RotatingFileHandler TimedRotatingFileHandler", Call(names=("filename",))),
    "ExcelWriter": Call(names=("path",)),
    "SummaryWriter": Call("folder", names=("log_dir", "logdir"), default="runs"),
    "TensorBoard": Call("folder", names=("log_dir",), default="logs"),
    **_all("TensorBoardLogger MLFlowLogger", Call("folder", names=("save_dir",), default=".")),
    # Lightning names a folder, Keras a file; what is made first decides nothing here.
    "CSVLogger": Call("below", names=("save_dir", "filename")),
    "ModelCheckpoint": Call("below", names=("dirpath", "filepath")),
    "BackupAndRestore": Call("below", names=("backup_dir",)),
    "Trainer": Call("folder", at=None, names=("default_root_dir",), default="lightning_logs"),
    **_all(
        "TrainingArguments Seq2SeqTrainingArguments SFTConfig DPOConfig GRPOConfig",
        Call("below", names=("output_dir",), default="trainer_output"),
    ),
}

#: By the last name, as methods of any object.
METHODS: dict[str, Call] = {
    **_all(
        "to_csv to_parquet to_pickle to_json to_excel to_hdf to_feather to_stata to_html to_latex "
        "to_markdown to_xml to_netcdf to_orc",
        Call(names=("path_or_buf", "path", "excel_writer", "buf")),
    ),
    "to_zarr": Call("below", names=("store",)),
    **_all(
        "write_csv write_parquet write_json write_ndjson write_ipc write_excel sink_csv "
        "sink_parquet",
        Call(names=("file", "path")),
    ),
    **_all("savefig write_html write_image tofile", Call(names=("fname", "file"))),
    **_all(
        "save save_weights save_model save_checkpoint dump_model export_graphviz",
        Call(names=("filepath", "path", "fp", "fname", "filename")),
    ),
    **_all(
        "save_pretrained save_to_disk to_disk",
        Call("below", names=("save_directory", "dataset_path")),
    ),
    "save_state": Call("below", names=("output_dir",)),
    **_all("extractall", Call("below", names=("path",), default=".")),
    **_all("write_text write_bytes touch symlink_to hardlink_to", Call(at=None)),
    "mkdir": Call("folder", at=None),
    "open": Call("mode", at=None, mode_at=0),
}
