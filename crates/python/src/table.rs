//! Tables of results for Arrow libraries.
//!
//! A table is a Parquet file, on disk or in memory. It is read on demand, batch by batch, through
//! Arrow's PyCapsule interface.

use std::fs::File;
use std::path::PathBuf;

use arrow_array::RecordBatchReader;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};
use tidegate_workbench::Error;

use crate::errors::raised;

/// Rows per batch: as many as in a row group.
const ROWS: usize = 1 << 16;

/// A table of results: flows, time series, or measurements of a sweep.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Table(Place);

/// The source of a table.
#[derive(FromPyObject)]
enum Of {
    Bytes(Vec<u8>),
    Path(PathBuf),
}

enum Place {
    File(PathBuf),
    Memory(Bytes),
}

impl From<Vec<u8>> for Table {
    fn from(bytes: Vec<u8>) -> Table {
        Table(Place::Memory(bytes.into()))
    }
}

/// An opened table.
struct Opened {
    rows: i64,
    reader: ParquetRecordBatchReader,
}

fn opened(from: impl ChunkReader + 'static) -> Result<Opened, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(from)?;
    let rows = builder.metadata().file_metadata().num_rows();
    Ok(Opened { rows, reader: builder.with_batch_size(ROWS).build()? })
}

impl Table {
    fn open(&self) -> PyResult<Opened> {
        let wrong = |name: String| {
            let text = move |why: &dyn std::fmt::Display| format!("{name}: {why}");
            move |why: &dyn std::fmt::Display| raised(Error::Run(text(why)))
        };
        match &self.0 {
            Place::Memory(bytes) => {
                opened(bytes.clone()).map_err(|why| wrong("a table".to_owned())(&why))
            }
            Place::File(path) => {
                let wrong = wrong(path.display().to_string());
                let file = File::open(path).map_err(|why| wrong(&why))?;
                opened(file).map_err(|why| wrong(&why))
            }
        }
    }
}

#[pymethods]
impl Table {
    /// Creates a table from the path of a Parquet file, which is read on demand, or from its bytes.
    #[new]
    fn new(of: Of) -> PyResult<Table> {
        let table = Table(match of {
            Of::Bytes(bytes) => Place::Memory(bytes.into()),
            Of::Path(path) => Place::File(path),
        });
        table.open()?;
        Ok(table)
    }

    /// For pickle: reconstructs the table from its bytes, or from its path, where the file must
    /// exist.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let of = match &self.0 {
            Place::File(path) => path.clone().into_pyobject(py)?.into_any(),
            Place::Memory(bytes) => PyBytes::new(py, bytes).into_any(),
        };
        (py.get_type::<Table>(), (of,)).into_pyobject(py)
    }

    /// Names of the columns, in order.
    #[getter]
    fn columns(&self) -> PyResult<Vec<String>> {
        let schema = self.open()?.reader.schema();
        Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.open()?.rows).unwrap_or(0))
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<Table: {} rows of {}>", self.__len__()?, self.columns()?.join(", ")))
    }

    /// Arrow's PyCapsule interface: the columns and their types.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.open()?.reader.schema().as_ref());
        let schema = schema.map_err(|error| raised(Error::Run(error.to_string())))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Arrow's PyCapsule interface: the rows, batch by batch. A requested schema is ignored, which
    /// the interface permits.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let stream = FFI_ArrowArrayStream::new(Box::new(self.open()?.reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
