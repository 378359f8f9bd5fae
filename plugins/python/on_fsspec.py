"""A test case with a file system of fsspec and a directory, each in a pool and on this machine."""
import gc
import os
import tempfile

from on_pool import OnPool, module

fsspec = module("fsspec")
LocalFileSystem = module("fsspec.implementations.local").LocalFileSystem


class OnFsspec(OnPool):
    def setUp(self):
        super().setUp()
        self.local_fs = LocalFileSystem(auto_mkdir=True)
        self.remote_fs = fsspec.filesystem(self.scheme, uri=self.uri)
        self.local = tempfile.mkdtemp(dir=self.base)
        self.remote = "/" + os.path.basename(self.local)
        self.remote_fs.mkdir(self.remote)

    def tearDown(self):
        self.remote_fs.rm(self.remote, recursive=True)
        # fsspec keeps every file system, and so the pool, open.
        type(self.remote_fs).clear_instance_cache()
        self.remote_fs.files.close()
        del self.remote_fs
        gc.collect()
        super().tearDown()

    def url(self, path):
        uri, _, query = self.uri.partition("?")
        return f"{uri}{path}?{query}"

    def found(self, fs, path):
        return sorted(name[len(path) + 1:] for name in fs.find(path))
