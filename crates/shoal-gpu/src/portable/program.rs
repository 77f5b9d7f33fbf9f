//! The programs of a device with their buffers, for hashes of one size.

use std::fmt;

use shoal_pow::Challenge;
use wgpu::BufferUsages as Usage;

use super::Launch;
use super::shader::{self, FIRST_POOL, Features};
use crate::device::GpuError;
use crate::lanes::{Lanes, Order, Shape};
use crate::run::{
    ORDER_BYTES, REQUEST_BYTES_MAX, RESULT_BYTES, SETUP_BYTES, ends, le_bytes, order_bytes,
    request, setup,
};

/// Storage buffers beside the pool's.
const OTHER_BUFFERS: u32 = 5;
/// Most buffers of the pool.
const POOLS_MAX: u32 = 32;

/// Programs for a pool of so many buffers: the same for hashes of every size.
#[derive(Clone)]
struct Pipelines {
    pools: u32,
    layout: wgpu::BindGroupLayout,
    begin: wgpu::ComputePipeline,
    fill: wgpu::ComputePipeline,
    finish: wgpu::ComputePipeline,
}

impl Pipelines {
    fn new(device: &wgpu::Device, features: Features) -> Self {
        let layout = layout(device, FIRST_POOL + features.pools);
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("argon2id"),
            source: wgpu::ShaderSource::Wgsl(shader::source(features).into()),
        });
        let pipelines = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = |entry| {
            device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(entry),
                layout: Some(&pipelines),
                module: &module,
                entry_point: Some(entry),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                cache: None,
            })
        };
        let (begin, fill, finish) = (pipeline("begin"), pipeline("fill"), pipeline("finish"));
        Self { pools: features.pools, layout, begin, fill, finish }
    }
}

/// Programs and buffers.
pub(crate) struct Program {
    shape: Shape,
    pool_chunks: u32,
    setup: wgpu::Buffer,
    request: wgpu::Buffer,
    references: wgpu::Buffer,
    orders: wgpu::Buffer,
    chunks: wgpu::Buffer,
    results: wgpu::Buffer,
    group: wgpu::BindGroup,
    pipelines: Pipelines,
    /// The part of the setup set by the challenge.
    fixed: [u32; 16],
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Program {
    /// Takes memory for hashes of `blocks`, `memory_kib` in all or as much as there is, and
    /// builds the programs, unless the programs of `before` fit.
    pub(super) fn new(
        device: &wgpu::Device,
        features: Features,
        blocks: u32,
        lane_max: u32,
        memory_kib: Option<u64>,
        before: Option<Self>,
    ) -> Result<Self, GpuError> {
        // Its memory is free before the new one is taken.
        let kept = before.map(|before| before.pipelines);
        let chunk_blocks = Shape::chunk_blocks_of(blocks);
        let lane_chunks = blocks.div_ceil(chunk_blocks);
        let limits = device.limits();
        let chunk_bytes = u64::from(chunk_blocks) * 1024;
        let pool_bytes = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        let pool_chunks = u32::try_from(pool_bytes / chunk_bytes).unwrap_or(u32::MAX);
        let pools_max = limits
            .max_storage_buffers_per_shader_stage
            .saturating_sub(OTHER_BUFFERS)
            .min(POOLS_MAX);
        // No more than all lanes can hold.
        let most = u64::from(lane_max) * u64::from(lane_chunks);
        let wanted = memory_kib.map_or(most, |kib| (kib / u64::from(chunk_blocks)).min(most));
        let (pools, chunk_count) = take_pools(device, wanted, pool_chunks, pools_max, chunk_bytes);
        let (needed, given) = (u64::from(blocks), u64::from(chunk_count) * u64::from(chunk_blocks));
        if chunk_count < lane_chunks {
            return Err(GpuError::Memory { needed, given });
        }
        let shape = Shape { blocks, chunk_blocks, chunk_count, lane_max };
        let lanes = u64::from(lane_max);
        let buffer = |size: u64, usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let input = Usage::STORAGE | Usage::COPY_DST;
        let setup = buffer(SETUP_BYTES, Usage::UNIFORM | Usage::COPY_DST);
        let request = buffer(REQUEST_BYTES_MAX as u64, input);
        let references = buffer(4 * u64::from(shape.dependent_from()), input);
        let orders = buffer(ORDER_BYTES * lanes, input);
        let chunks = buffer(4 * lanes * u64::from(lane_chunks), input);
        let results = buffer(RESULT_BYTES as u64 * lanes, Usage::STORAGE | Usage::COPY_SRC);
        let bound: Vec<&wgpu::Buffer> = [&setup, &request, &references, &orders, &chunks, &results]
            .into_iter()
            .chain(&pools)
            .collect();
        let features = Features { pools: pools.len() as u32, ..features };
        let pipelines = kept
            .filter(|kept| kept.pools == features.pools)
            .unwrap_or_else(|| Pipelines::new(device, features));
        let entries: Vec<_> = (0u32..)
            .zip(&bound)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipelines.layout,
            entries: &entries,
        });
        Ok(Self {
            pipelines,
            shape,
            pool_chunks,
            setup,
            request,
            references,
            orders,
            chunks,
            results,
            group,
            fixed: [0; 16],
        })
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Gives the device a challenge.
    pub(super) fn load(&mut self, queue: &wgpu::Queue, challenge: &Challenge) {
        let (request, request_bytes) = request(challenge);
        queue.write_buffer(&self.request, 0, &request);
        if self.fixed[8] != self.shape.blocks {
            queue.write_buffer(&self.references, 0, &le_bytes(&challenge.known_references()));
        }
        self.fixed = setup(challenge, self.shape, self.pool_chunks, request_bytes);
    }

    /// Gives the device a launch.
    pub(super) fn launch(
        &self,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        lanes: &Lanes,
        orders: &[Order],
    ) -> Launch {
        let count = u32::try_from(orders.len()).expect("lanes fit 32 bits");
        let mut setup = self.fixed;
        setup[14] = count;
        queue.write_buffer(&self.setup, 0, &le_bytes(&setup));
        queue.write_buffer(&self.chunks, 0, &le_bytes(lanes.chunks()));
        queue.write_buffer(&self.orders, 0, &order_bytes(orders));
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let some_end = ends(orders, self.shape);
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_bind_group(0, &self.group, &[]);
        if orders.iter().any(|order| order.first == 0) {
            pass.set_pipeline(&self.pipelines.begin);
            pass.dispatch_workgroups((2 * count).div_ceil(32), 1, 1);
        }
        pass.set_pipeline(&self.pipelines.fill);
        pass.dispatch_workgroups(count, 1, 1);
        if some_end {
            pass.set_pipeline(&self.pipelines.finish);
            pass.dispatch_workgroups(count.div_ceil(32), 1, 1);
        }
        drop(pass);
        let read = some_end.then(|| {
            let size = RESULT_BYTES as u64 * u64::from(count);
            let read = device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage: Usage::MAP_READ | Usage::COPY_DST,
                mapped_at_creation: false,
            });
            encoder.copy_buffer_to_buffer(&self.results, 0, &read, 0, size);
            read
        });
        queue.submit([encoder.finish()]);
        let launch = Launch::new(read);
        let mark = launch.mark();
        match &launch.results {
            Some(results) => {
                results.map_async(wgpu::MapMode::Read, .., move |result| mark(result.is_ok()));
            }
            None => queue.on_submitted_work_done(move || mark(true)),
        }
        launch
    }
}

/// Takes buffers for up to `wanted` chunks, as many as the device gives. Returns them and the
/// number of their chunks.
fn take_pools(
    device: &wgpu::Device,
    wanted: u64,
    pool_chunks: u32,
    pools_max: u32,
    chunk_bytes: u64,
) -> (Vec<wgpu::Buffer>, u32) {
    let mut pools = Vec::new();
    let mut taken = 0u32;
    while pools.len() < pools_max as usize {
        let left = u32::try_from(wanted.saturating_sub(taken.into())).unwrap_or(u32::MAX);
        let mut chunks = left.min(pool_chunks);
        // A device nearly full gives a smaller one.
        let buffer = loop {
            if chunks == 0 {
                return (pools, taken);
            }
            let scope = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
            let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("pool"),
                size: u64::from(chunks) * chunk_bytes,
                usage: Usage::STORAGE,
                mapped_at_creation: false,
            });
            match pollster::block_on(scope.pop()) {
                None => break buffer,
                Some(_) => chunks /= 2,
            }
        };
        pools.push(buffer);
        taken += chunks;
        if chunks < pool_chunks {
            // Only the last may be smaller: a chunk's pool is found by division.
            break;
        }
    }
    (pools, taken)
}

/// The bindings: the setup, five inputs and outputs, and the pool.
fn layout(device: &wgpu::Device, count: u32) -> wgpu::BindGroupLayout {
    let entries: Vec<_> = (0..count)
        .map(|binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match binding {
                    0 => wgpu::BufferBindingType::Uniform,
                    _ => wgpu::BufferBindingType::Storage { read_only: binding < FIRST_POOL - 1 },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        })
        .collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: None,
        entries: &entries,
    })
}
