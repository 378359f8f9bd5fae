"""Tests libraries of data on files of a container, by a file and by fsspec. They are the packages of
tools/packages-hpc.txt, so `./dev nightly` runs this."""
import unittest

from on_pool import OnPool, module


class Embedded(OnPool):
    def setUp(self):
        super().setUp()
        self.fsspec = module("fsspec")

    def tearDown(self):
        from ros2store.fsspec import Ros2storeFileSystem
        for each in list(Ros2storeFileSystem._cache.values()):
            each.files.close()
        Ros2storeFileSystem.clear_instance_cache()
        super().tearDown()

    def url(self, path):
        uri, _, query = self.uri.partition("?")
        return f"{uri}/{path}?{query}"

    def test_h5py_on_files(self):
        h5py, numpy = module("h5py"), module("numpy")
        array = numpy.arange(100_000).reshape(100, 1000)
        for name, opened in (("a.h5", lambda mode: self.fs.open("a.h5", {"w": "w+b"}.get(mode, mode + "b"))),
                             ("b.h5", lambda mode: self.fs.open("b.h5", {"w": "w+b"}.get(mode, mode + "b"), 0))):
            with opened("w") as file, h5py.File(file, "w") as written:
                written.create_dataset("x", data=array, chunks=(10, 100), compression="gzip")
                written.attrs["unit"] = "m"
            with opened("r+") as file, h5py.File(file, "r+") as changed:
                changed["y"] = array[0]
            with self.subTest(name=name), self.fsspec.open(self.url(name)) as file, h5py.File(file, "r") as read:
                numpy.testing.assert_array_equal(read["x"][:], array)
                numpy.testing.assert_array_equal(read["y"][:], array[0])
                self.assertEqual(read.attrs["unit"], "m")

    def test_pandas_hdf5(self):
        pandas, _ = module("pandas"), module("tables")
        frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
        with pandas.HDFStore("memory.h5", "w", driver="H5FD_CORE", driver_core_backing_store=0) as store:
            store["frame"] = frame
            image = store._handle.get_file_image()
        with self.fs.open("frame.h5", "wb") as file:
            file.write(image)
        with self.fs.open("frame.h5", "rb") as file:
            image = file.read()
        with pandas.HDFStore("memory.h5", "r", driver="H5FD_CORE", driver_core_backing_store=0,
                             driver_core_image=image) as store:
            pandas.testing.assert_frame_equal(store["frame"], frame)

    def test_pandas_pickle_and_json_by_url(self):
        pandas = module("pandas")
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "ü"]})
        frame.to_pickle(self.url("a.pickle"))
        pandas.testing.assert_frame_equal(pandas.read_pickle(self.url("a.pickle")), frame)
        frame.to_json(self.url("a.json"))
        pandas.testing.assert_frame_equal(pandas.read_json(self.url("a.json")), frame)

    def test_xarray(self):
        xarray, numpy = module("xarray"), module("numpy")
        data = xarray.Dataset({"t": (("x", "y"), numpy.arange(600.0).reshape(20, 30))}, {"x": numpy.arange(20)})
        data.to_zarr(self.fsspec.get_mapper(self.url("a.zarr")))
        xarray.testing.assert_identical(xarray.open_zarr(self.fsspec.get_mapper(self.url("a.zarr"))).load(), data)
        url = self.url("b.zarr").replace("+", "", 1)
        data.to_zarr(url)
        xarray.testing.assert_identical(xarray.open_zarr(url).load(), data)
        self.assertTrue(self.fs.isdir("b.zarr"))

    def test_dask(self):
        frames, pandas = module("dask.dataframe"), module("pandas")
        for part in range(3):
            pandas.DataFrame({"a": range(part * 10, part * 10 + 10)}).to_csv(self.url(f"parts/{part}.csv"), index=False)
        frame = frames.read_csv(self.url("parts/*.csv"))
        self.assertEqual(int(frame.a.sum().compute(scheduler="threads")), 435)
        frame.to_csv(self.url("out/*.csv"), index=False, compute_kwargs={"scheduler": "threads"})
        self.assertEqual(sorted(self.fs.listdir("out")), ["0.csv", "1.csv", "2.csv"])
        bag = module("dask.bag").read_text(self.url("parts/*.csv"))
        self.assertEqual(bag.count().compute(scheduler="threads"), 33)


class Direct(Embedded):
    scheme = "ros2s"


class Offload(Embedded):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()
