import { type Static, Type } from 'typebox'
import { listEndpointsWithCompute } from '../../catalog/endpoint.ts'
import { type Host, listHosts } from '../../catalog/host.ts'
import { route } from '../route.ts'

const Compute = Type.Object(
  {
    endpoint_id: Type.String(),
    branch_id: Type.String(),
    project_id: Type.String(),
    state: Type.String(),
    cu: Type.Number({ description: 'Its size now' }),
    limit_error: Type.Optional(Type.String({ description: 'Why it is not held to its size' })),
    compute_id: Type.Optional(Type.String()),
    store_id: Type.Optional(Type.String()),
    socket_dir: Type.Optional(Type.String()),
    port: Type.Optional(Type.Integer()),
    started_at: Type.Optional(Type.String({ format: 'date-time' })),
  },
  { $id: 'Compute' },
)

const HostView = Type.Object(
  {
    id: Type.String(),
    region: Type.Optional(Type.String()),
    cpus: Type.Optional(Type.Integer()),
    memory_bytes: Type.Optional(Type.Integer()),
    capacity_cu: Type.Optional(Type.Number({ description: 'What the sizes of its computes may sum up to' })),
    used_cu: Type.Number({ description: 'What they sum up to now' }),
    disk_bytes: Type.Optional(
      Type.Integer({ description: 'The disk of its stores: that of its data directory, or their image' }),
    ),
    disk_free_bytes: Type.Optional(Type.Integer()),
    branch_bytes: Type.Integer({ description: 'The files of its branches, as last measured' }),
    limit_error: Type.Optional(Type.String({ description: 'Why computes are not held to their sizes there' })),
    clone_mode: Type.Optional(
      Type.String({ description: 'How branches are cloned: by `reflink`, in an `image` with it, or by `copy`' }),
    ),
    image: Type.Optional(
      Type.Object(
        {
          bytes: Type.Integer({ description: 'What it takes of the disk below' }),
          growable_bytes: Type.Integer({ description: 'How much more it may take by itself' }),
          problem: Type.Optional(Type.String({ description: 'Why it does not grow although it is short of room' })),
        },
        { description: 'The image of its branches' },
      ),
    ),
    storage: Type.Optional(
      Type.Object(
        {
          apparent_bytes: Type.Integer({ description: 'The sizes of all files of branches and snapshots' }),
          real_bytes: Type.Integer({ description: 'Their blocks, and those of templates, each counted once' }),
          measured_at: Type.String({ format: 'date-time' }),
        },
        { description: 'The space of its branches' },
      ),
    ),
    heartbeat_at: Type.Optional(Type.String({ format: 'date-time', description: 'When its worker was last heard of' })),
  },
  { $id: 'Host' },
)

export const getStatus = route('GET /status', {
  summary: 'What runs on this Neap: of the account, or of all where its administrator asks',
  tag: 'Neap',
  scope: 'admin',
  returns: Type.Object({ computes: Type.Array(Compute), hosts: Type.Array(HostView) }),
  errors: [],
}).handle(async (_request, { db, caller }) => {
  const administers = caller.credential.kind === 'admin_socket'
  const endpoints = await listEndpointsWithCompute(db)
  return {
    hosts: administers ? (await listHosts(db)).map(shownHost) : [],
    computes: endpoints
      .filter((endpoint) => administers || endpoint.account_id === caller.account.id)
      .map((endpoint) => ({
        endpoint_id: endpoint.id,
        branch_id: endpoint.branch_id,
        project_id: endpoint.project_id,
        state: endpoint.pending_state
          ? `${endpoint.current_state} → ${endpoint.pending_state}`
          : endpoint.current_state,
        cu: endpoint.cu,
        ...(endpoint.limit_error !== null && { limit_error: endpoint.limit_error }),
        ...(endpoint.compute_id !== null && { compute_id: endpoint.compute_id }),
        ...(endpoint.compute_store_id !== null && { store_id: endpoint.compute_store_id }),
        ...(endpoint.compute_address !== null && { socket_dir: endpoint.compute_address }),
        ...(endpoint.compute_port !== null && { port: endpoint.compute_port }),
        ...(endpoint.started_at !== null && { started_at: endpoint.started_at }),
      })),
  }
})

function shownHost({
  id,
  region,
  cpus,
  memory_bytes,
  capacity_cu,
  used_cu,
  disk_bytes,
  disk_free_bytes,
  store_bytes,
  limit_error,
  clone_mode,
  image,
  growable_bytes,
  space_measured_at: measured_at,
  apparent_bytes,
  real_bytes,
  heartbeat_at,
}: Host): Static<typeof HostView> {
  return {
    id,
    ...(region !== null && { region }),
    ...(cpus !== null && { cpus }),
    ...(memory_bytes !== null && { memory_bytes }),
    ...(capacity_cu !== null && { capacity_cu }),
    used_cu,
    ...(disk_bytes !== null && { disk_bytes }),
    ...(disk_free_bytes !== null && { disk_free_bytes }),
    branch_bytes: store_bytes,
    ...(limit_error !== null && { limit_error }),
    ...(clone_mode !== null && { clone_mode }),
    ...(image !== null && {
      image: { bytes: image.bytes, growable_bytes, ...(image.problem !== null && { problem: image.problem }) },
    }),
    ...(measured_at !== null && { storage: { apparent_bytes, real_bytes, measured_at } }),
    ...(heartbeat_at !== null && { heartbeat_at }),
  }
}
