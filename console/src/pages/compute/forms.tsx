import { type Branch, type Endpoint, prepare } from '../../api.ts'
import { BranchPicker } from '../../parts/branch_picker.tsx'
import { Field, textOf } from '../../parts/field.tsx'
import { FormDialog } from '../../parts/form_dialog.tsx'

interface FormProps {
  readonly endpoint: Endpoint
  readonly onChange: () => void
}

const SIZES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 7]
const RANGE_SIZES = [1, 1.5, 2, 3, 4, 5, 6, 7]

const PATCH = 'PATCH /projects/:project_id/endpoints/:endpoint_id'
const paramsOf = ({ project_id, id }: Endpoint) => ({ project_id, endpoint_id: id })
const updateOf = ({ project_id, id }: Endpoint) => ['endpoints', 'update', id, '--project', project_id]

/** Changes the size of a compute, fixed or its limits, as it was made. */
export function Resize({ endpoint, onChange }: FormProps) {
  const { autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max } = endpoint
  const isFixed = min === max
  const limitsOf = (fields: FormData) => {
    const lower = Number(textOf(fields, 'min') ?? min)
    return { lower, upper: isFixed ? lower : Number(textOf(fields, 'max') ?? max) }
  }
  return (
    <FormDialog
      action="resize"
      opener="Resize"
      title="Resize the compute"
      verb="Resize"
      done={onChange}
      request={(fields) => {
        const { lower, upper } = limitsOf(fields)
        if (!isFixed && lower >= upper) throw new Error('The lower limit lies below the upper one.')
        const size = { autoscaling_limit_min_cu: lower, autoscaling_limit_max_cu: upper }
        return prepare(PATCH, { params: paramsOf(endpoint), body: { endpoint: size } })
      }}
      neap={(fields) => {
        const { lower, upper } = limitsOf(fields)
        return [...updateOf(endpoint), '--cu', lower === upper ? `${lower}` : `${lower}-${upper}`]
      }}
    >
      <p>
        {isFixed
          ? 'A fixed size: one CU is a CPU and 4 GiB of memory. To scale by itself it takes another endpoint.'
          : 'It scales by itself between the limits. A running compute is resized at once, without a restart.'}
      </p>
      <SizeField name="min" label={isFixed ? 'Size' : 'At least'} sizes={isFixed ? SIZES : RANGE_SIZES} now={min} />
      {!isFixed && <SizeField name="max" label="At most" sizes={RANGE_SIZES} now={max} />}
    </FormDialog>
  )
}

function SizeField(field: {
  readonly name: string
  readonly label: string
  readonly sizes: readonly number[]
  readonly now: number
}) {
  const sizes = [...new Set([...field.sizes, field.now])].toSorted((one, other) => one - other)
  return (
    <Field label={field.label}>
      <select name={field.name} defaultValue={field.now}>
        {sizes.map((cu) => (
          <option key={cu} value={cu}>
            {cu} CU – {cu * 4} GiB
          </option>
        ))}
      </select>
    </Field>
  )
}

const TIMEOUTS: readonly (readonly [seconds: number, words: string])[] = [
  [0, 'The default of this Neap'],
  [60, '1 minute'],
  [300, '5 minutes'],
  [900, '15 minutes'],
  [3_600, '1 hour'],
  [86_400, '1 day'],
  [-1, 'Never'],
]

/** After how long an unused compute goes to sleep, in words. */
export const timeoutWords = (seconds: number): string =>
  new Map(TIMEOUTS).get(seconds)?.replace(/^[A-Z]/, (first) => first.toLowerCase()) ?? `${seconds} seconds`

/** Changes after how long an unused compute goes to sleep. */
export function SuspendTimeout({ endpoint, onChange }: FormProps) {
  const { suspend_timeout_seconds: now } = endpoint
  const known = TIMEOUTS.some(([seconds]) => seconds === now)
  const secondsOf = (fields: FormData) => Number(textOf(fields, 'seconds') ?? now)
  return (
    <FormDialog
      action="suspend-timeout"
      opener="Suspend timeout"
      title="When it goes to sleep"
      verb="Change"
      done={onChange}
      request={(fields) =>
        prepare(PATCH, {
          params: paramsOf(endpoint),
          body: { endpoint: { suspend_timeout_seconds: secondsOf(fields) } },
        })
      }
      neap={(fields) => {
        const seconds = secondsOf(fields)
        const words = seconds === -1 ? 'never' : seconds === 0 ? 'default' : `${seconds}`
        return [...updateOf(endpoint), '--suspend-timeout', words]
      }}
    >
      <Field label="Unused for" hint="A connection wakes it again.">
        <select name="seconds" defaultValue={now}>
          {!known && <option value={now}>{now} seconds</option>}
          {TIMEOUTS.map(([seconds, words]) => (
            <option key={seconds} value={seconds}>
              {words}
            </option>
          ))}
        </select>
      </Field>
    </FormDialog>
  )
}

/** Moves an endpoint to a branch without one; its host name stays. */
export function Move({ endpoint, onChange, unavailable }: FormProps & { readonly unavailable: string | undefined }) {
  const target = (fields: FormData) => textOf(fields, 'branch') ?? ''
  return (
    <FormDialog
      action="move"
      opener="Move"
      title="Move the compute to another branch"
      verb="Move"
      unavailable={unavailable}
      done={onChange}
      request={(fields) => {
        if (target(fields) === '') throw new Error('Name a branch of this project.')
        return prepare(PATCH, { params: paramsOf(endpoint), body: { endpoint: { branch_id: target(fields) } } })
      }}
      neap={(fields) => [...updateOf(endpoint), '--move-to', target(fields)]}
    >
      <p>Its host name stays: the same connection string then leads to the other branch. Its sessions end.</p>
      <BranchPicker
        projectId={endpoint.project_id}
        label="Branch"
        hint="A branch without a compute. Type a part of its name."
        name="branch"
        isRequired
      />
    </FormDialog>
  )
}

/** Stops an endpoint until it is enabled, or enables it. */
export function Enable({ endpoint, onChange }: FormProps) {
  const { disabled } = endpoint
  return (
    <FormDialog
      action="enable"
      opener={disabled ? 'Enable' : 'Disable'}
      title={disabled ? 'Enable the compute' : 'Disable the compute'}
      verb={disabled ? 'Enable' : 'Disable'}
      isDangerous={!disabled}
      done={onChange}
      request={() => prepare(PATCH, { params: paramsOf(endpoint), body: { endpoint: { disabled: !disabled } } })}
      neap={() => [...updateOf(endpoint), disabled ? '--enable' : '--disable']}
    >
      <p>
        {disabled
          ? 'Connections wake it again.'
          : 'It is suspended, its sessions end, and no connection wakes it until it is enabled.'}
      </p>
    </FormDialog>
  )
}

/** Gives a branch without a compute one, with the project's defaults. */
export function AddCompute({ branch, onChange }: { readonly branch: Branch; readonly onChange: () => void }) {
  const { project_id, id: branch_id } = branch
  return (
    <FormDialog
      action="add-compute"
      opener="Add a compute"
      title={`Add a compute to ${branch.name}`}
      verb="Add"
      done={onChange}
      request={() =>
        prepare('POST /projects/:project_id/endpoints', {
          params: { project_id },
          body: { endpoint: { branch_id, type: 'read_write' } },
        })
      }
      neap={() => ['endpoints', 'create', branch_id, '--project', project_id]}
    >
      <p>It has the size and the timeout that the project’s settings name, and starts at once.</p>
    </FormDialog>
  )
}
