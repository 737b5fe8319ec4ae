import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ApiResponse } from '../../../../src/client.ts'
import { type Branch, call, prepare } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { bytes } from '../../parts/amounts.ts'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Setting } from '../../parts/setting.tsx'
import { Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'
import { expiryOf, given, Lifetime, lifetimeOf } from '../branches/lifetime.tsx'
import { SnapshotSchedule } from './snapshot_schedule.tsx'

type Snapshot = ApiResponse<'GET /projects/:project_id/snapshots'>['snapshots'][number]

/** The snapshots of a branch, and when they are taken by themselves. */
export function Snapshots({ branch }: { readonly branch: Branch }) {
  const { project_id, id } = branch
  const queries = useQueryClient()
  const { state } = keysOf(project_id)
  const snapshots = useQuery({
    queryKey: [...state, 'snapshots'],
    queryFn: async () => (await call('GET /projects/:project_id/snapshots', { params: { project_id } })).snapshots,
  })
  const done = () => queries.invalidateQueries({ queryKey: state })
  const own = snapshots.data?.filter(({ source_branch_id }) => source_branch_id === id) ?? []
  return (
    <>
      <Setting
        title="Snapshots"
        state={snapshots.error?.message ?? 'Each keeps what the branch had, until it is removed.'}
      >
        <TakeSnapshot branch={branch} done={done} /> <SnapshotSchedule branch={branch} />
      </Setting>
      {own.length > 0 && (
        <Table
          label="Snapshots"
          rows={own}
          keyOf={(snapshot) => snapshot.id}
          columns={[
            { title: 'Name', of: (snapshot) => <Name snapshot={snapshot} /> },
            { title: 'Of', of: ({ lsn, timestamp }) => (timestamp === undefined ? lsn : <Moment at={timestamp} />) },
            { title: 'Size', of: ({ full_size: size }) => (size === undefined ? 'unknown' : bytes(size)) },
            { title: 'Its own', of: ({ diff_size: size }) => (size === undefined ? 'unknown' : bytes(size)) },
            { title: 'Removed', of: ({ expires_at: at }) => (at === undefined ? 'by you' : <Moment at={at} />) },
            {
              title: 'Actions',
              isActions: true,
              of: (snapshot) => (
                <>
                  <RestoreSnapshot branch={branch} snapshot={snapshot} done={done} />{' '}
                  <RemoveSnapshot snapshot={snapshot} branch={branch} done={done} />
                </>
              ),
            },
          ]}
        />
      )}
    </>
  )
}

const Name = ({ snapshot: { name, manual } }: { readonly snapshot: Snapshot }) => (
  <>
    {name} {!manual && <span className="mark">scheduled</span>}
  </>
)

interface ChangeProps {
  readonly branch: Branch
  readonly done: () => unknown
}

function TakeSnapshot({ branch: { project_id, id, name }, done }: ChangeProps) {
  return (
    <FormDialog
      action="snapshot"
      opener="Take a snapshot"
      title={`Take a snapshot of ${name}`}
      verb="Take snapshot"
      request={(fields) =>
        prepare('POST /projects/:project_id/branches/:branch_id/snapshot', {
          params: { project_id, branch_id: id },
          query: { name: textOf(fields, 'name'), expires_at: expiryOf(fields) },
        })
      }
      neap={(fields) => [
        'snapshots',
        'create',
        '--project',
        project_id,
        id,
        ...given('--name', textOf(fields, 'name')),
        ...given('--expires', lifetimeOf(fields)),
      ]}
      done={done}
    >
      <Field label="Name" hint="Leave it empty to have one made up.">
        <input name="name" maxLength={256} autoComplete="off" />
      </Field>
      <Lifetime isTicked={false} />
    </FormDialog>
  )
}

interface SnapshotProps extends ChangeProps {
  readonly snapshot: Snapshot
}

function RestoreSnapshot({ branch, snapshot, done }: SnapshotProps) {
  const { project_id, id } = branch
  const replaces = (fields: FormData) => fields.get('replace') === 'on'
  return (
    <FormDialog
      opener="Restore"
      title={`Restore the snapshot ${snapshot.name}`}
      verb="Restore snapshot"
      request={(fields) =>
        prepare('POST /projects/:project_id/snapshots/:snapshot_id/restore', {
          params: { project_id, snapshot_id: snapshot.id },
          body: { name: textOf(fields, 'name'), target_branch_id: id, finalize_restore: replaces(fields) },
        })
      }
      neap={(fields) => [
        'snapshots',
        'restore',
        '--project',
        project_id,
        snapshot.id,
        ...given('--name', textOf(fields, 'name')),
        ...(replaces(fields) ? ['--finalize'] : []),
      ]}
      done={done}
    >
      <p>A branch is made of it, without an endpoint, to look at. Or this branch gets its data at once:</p>
      <label className="check">
        <input type="checkbox" name="replace" /> Give {branch.name} its data, and keep what it has now in the other
      </label>
      <Field label="Name of the other branch" hint="Leave it empty to have one made up.">
        <input name="name" maxLength={256} autoComplete="off" />
      </Field>
    </FormDialog>
  )
}

function RemoveSnapshot({ branch: { project_id }, snapshot, done }: SnapshotProps) {
  return (
    <FormDialog
      opener="Remove"
      title={`Remove the snapshot ${snapshot.name}?`}
      verb="Remove snapshot"
      isDangerous
      confirm={snapshot.name}
      request={() =>
        prepare('DELETE /projects/:project_id/snapshots/:snapshot_id', {
          params: { project_id, snapshot_id: snapshot.id },
        })
      }
      neap={() => ['snapshots', 'delete', '--project', project_id, snapshot.id]}
      done={done}
    >
      <p>What it keeps is removed for good. Branches that were made of it stay.</p>
    </FormDialog>
  )
}
