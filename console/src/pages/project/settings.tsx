import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useLocation } from 'wouter'
import { call, prepare } from '../../api.ts'
import { bytes } from '../../parts/amounts.ts'
import { ProjectDeletion } from '../../parts/disk_usage.tsx'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'
import { Meter } from '../../parts/meter.tsx'
import { QUOTA_NAMES, QuotaFields, QUOTAS, quotasOf } from '../../parts/quota_fields.tsx'
import { Setting } from '../../parts/setting.tsx'
import { Failure, Loading } from '../../parts/states.tsx'
import { CHANGE_PROJECT, type ProjectChangeProps } from './change.ts'
import { Defaults } from './default_settings.tsx'
import { Notices } from './notices.tsx'

const GIB = 1024 ** 3

/** What can be changed of a project. */
export function ProjectSettings({ projectId }: { readonly projectId: string }) {
  const queries = useQueryClient()
  const read = useQuery({
    queryKey: ['project', projectId],
    queryFn: async () => (await call('GET /projects/:project_id', { params: { project_id: projectId } })).project,
  })
  if (read.isPending) return <Loading what="Reading the project" />
  if (read.error && !read.data) return <Failure error={read.error} retry={() => void read.refetch()} />
  const project = read.data
  const done = () => queries.invalidateQueries({ queryKey: ['project', projectId], exact: true })
  const { ips, protected_branches_only: onlyProtected } = project.settings.allowed_ips
  return (
    <>
      <Notices projectId={projectId} />
      <Setting title="Name" state={project.name}>
        <Rename project={project} done={done} />
      </Setting>
      <Setting
        title="Allowed addresses"
        state={
          ips.length === 0
            ? 'Every address may connect.'
            : `${ips.join(', ')}${onlyProtected ? ', to protected branches' : ''}`
        }
      >
        <AllowedAddresses project={project} done={done} />
      </Setting>
      <Setting title="Quotas of a month" state={<Used project={project} />}>
        <Quota project={project} done={done} />
      </Setting>
      <Defaults project={project} done={done} />
      <Switch
        project={project}
        done={done}
        name="enable_egress"
        title="Egress"
        words={['Computes reach no network.', 'Computes may reach public addresses.']}
        about="A change restarts the computes that run."
      />
      <Switch
        project={project}
        done={done}
        name="enable_logical_replication"
        title="Logical replication"
        words={['Roles may not replicate.', 'Roles may read changes from slots, and be subscribed to.']}
        about="A change restarts the computes that run."
      />
      <Setting title="Made with" state={`Postgres ${project.pg_version} in ${project.region_id}`} />
      <Setting title="Delete" state="The project with all its branches.">
        <DeleteProject project={project} />
      </Setting>
    </>
  )
}

function Used({ project }: Pick<ProjectChangeProps, 'project'>) {
  const limits = project.settings.quota ?? {}
  return (
    <>
      {QUOTA_NAMES.map((name) => (
        <Meter
          key={name}
          label={QUOTAS[name].title}
          used={project[name]}
          limit={limits[name] ?? 0}
          show={QUOTAS[name].show}
        />
      ))}
      <small>
        Size of a branch: {limits.logical_size_bytes ? `${bytes(limits.logical_size_bytes)} at most` : 'no limit'}
      </small>
    </>
  )
}

function Rename({ project, done }: ProjectChangeProps) {
  const queries = useQueryClient()
  return (
    <FormDialog
      action="rename"
      opener="Rename"
      title={`Rename ${project.name}`}
      verb="Rename project"
      request={(fields) =>
        prepare(CHANGE_PROJECT, {
          params: { project_id: project.id },
          body: { project: { name: textOf(fields, 'name') } },
        })
      }
      neap={(fields) => ['projects', 'update', project.id, '--name', textOf(fields, 'name') ?? '']}
      done={async () => {
        await queries.invalidateQueries({ queryKey: ['projects'] })
        await done()
      }}
    >
      <Field label="Name">
        <input name="name" required maxLength={256} defaultValue={project.name} autoComplete="off" />
      </Field>
    </FormDialog>
  )
}

function AllowedAddresses({ project, done }: ProjectChangeProps) {
  const { ips, protected_branches_only: onlyProtected } = project.settings.allowed_ips
  return (
    <FormDialog
      action="addresses"
      opener="Change addresses"
      title="Addresses that may connect"
      verb="Save"
      request={(fields) => {
        const allowed_ips = {
          ips: (textOf(fields, 'ips') ?? '').split(/[\s,]+/).filter(Boolean),
          protected_branches_only: fields.get('protected') === 'on',
        }
        return prepare(CHANGE_PROJECT, {
          params: { project_id: project.id },
          body: { project: { settings: { allowed_ips } } },
        })
      }}
      done={done}
    >
      <Field label="Addresses" hint="One a line: 192.0.2.7, 192.0.2.0/24, 192.0.2.1-192.0.2.9. Empty: every address.">
        <textarea name="ips" rows={6} defaultValue={ips.join('\n')} />
      </Field>
      <label className="check">
        <input type="checkbox" name="protected" defaultChecked={onlyProtected} /> For protected branches only
      </label>
    </FormDialog>
  )
}

function Quota({ project, done }: ProjectChangeProps) {
  const now = project.settings.quota ?? {}
  return (
    <FormDialog
      action="quotas"
      opener="Change quotas"
      title="Quotas of the project"
      verb="Save"
      request={(fields) => {
        const size = Math.round(Number(textOf(fields, 'size') ?? 0) * GIB)
        const quota = { ...quotasOf(fields), logical_size_bytes: size }
        return prepare(CHANGE_PROJECT, {
          params: { project_id: project.id },
          body: { project: { settings: { quota } } },
        })
      }}
      done={done}
    >
      <QuotaFields now={now} />
      <Field label="Size of each branch, GiB" hint="Empty: no limit. Larger branches refuse writes.">
        <input
          name="size"
          type="number"
          min={0}
          step="any"
          defaultValue={now.logical_size_bytes ? now.logical_size_bytes / GIB : ''}
        />
      </Field>
    </FormDialog>
  )
}

interface SwitchProps extends ProjectChangeProps {
  readonly name: 'enable_egress' | 'enable_logical_replication'
  readonly title: string
  /** What holds while it is off, and while it is on. */
  readonly words: readonly [string, string]
  readonly about: string
}

function Switch({ project, done, name, title, words, about }: SwitchProps) {
  const isOn = project.settings[name] === true
  const missing = name === 'enable_egress' && isOn ? project.egress_missing : undefined
  const verb = isOn ? 'Turn off' : 'Turn on'
  return (
    <Setting
      title={title}
      state={
        <>
          {words[isOn ? 1 : 0]} {missing !== undefined && <small role="alert">{missing}</small>}
        </>
      }
    >
      <FormDialog
        action={name}
        opener={verb}
        title={`${title}: ${verb.toLowerCase()}?`}
        verb={verb}
        request={() =>
          prepare(CHANGE_PROJECT, {
            params: { project_id: project.id },
            body: { project: { settings: { [name]: !isOn } } },
          })
        }
        done={done}
      >
        <p>
          {words[isOn ? 0 : 1]} {about}
        </p>
      </FormDialog>
    </Setting>
  )
}

function DeleteProject({ project }: Pick<ProjectChangeProps, 'project'>) {
  const queries = useQueryClient()
  const [, navigate] = useLocation()
  return (
    <FormDialog
      action="delete"
      opener="Delete project"
      title={`Delete ${project.name}?`}
      verb="Delete project"
      isDangerous
      confirm={project.name}
      request={() => prepare('DELETE /projects/:project_id', { params: { project_id: project.id } })}
      neap={() => ['projects', 'delete', project.id]}
      done={async () => {
        navigate('/')
        await queries.invalidateQueries({ queryKey: ['projects'] })
      }}
    >
      <p>
        Its computes stop at once. It can be recovered from the list of projects only where this Neap leaves time for
        that (NEAP_RECOVER_HOURS); otherwise its data is gone for good.
      </p>
      <ProjectDeletion projectId={project.id} />
    </FormDialog>
  )
}
