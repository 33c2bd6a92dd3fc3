/** Routes that teams have for their own requests: listed, created and changed after a look at their plan, deleted with an undo. */
import { type Signal, useSignal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { ApiError, hasRole, readAll, useResource, write } from '../../api.ts'
import type { TeamRecord } from '../../key-records.ts'
import { attempt, ConflictDialog, changeRecord, type DialogEnd, Form } from '../../parts/changing.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Empty, Failed } from '../../parts/states.tsx'
import type { RoutesActivity, ShownPlan } from '../../plans.ts'
import { toast } from '../../store.ts'
import { keysWords } from '../../words/keys.ts'
import { routes as texts } from '../../words/routes.ts'
import { Plan } from './explain.tsx'
import { entriesIn, linesOf, type OwnRoute } from './own-text.ts'

const { own: words } = texts
/** Routes and teams that are read. */
const MOST = 200
const STRATEGIES = ['priority', 'weighted', 'latency', 'cost'] as const

const textIn = (data: FormData, name: string): string => String(data.get(name) ?? '').trim()

const entriesOf = (text: string): readonly unknown[] => {
  const found = entriesIn(text)
  if ('entries' in found) return found.entries
  const message = words.noJson(found.wrong)
  throw new ApiError({ status: 0, code: 'no_json', message, requestId: null, fields: [] })
}

/** The route of the form. An empty strategy is that of the settings. */
const draftIn = (fields: FormData) => ({
  name: textIn(fields, 'name'),
  team: textIn(fields, 'team'),
  strategy: textIn(fields, 'strategy') || null,
  targets: entriesOf(textIn(fields, 'targets')),
  fallback: entriesOf(textIn(fields, 'fallback')),
})
type Draft = ReturnType<typeof draftIn>

const specOf = ({ strategy, targets, fallback }: Draft) => ({
  ...(strategy !== null && { strategy }),
  targets,
  fallback,
})
const patchOf = ({ name, strategy, targets, fallback }: Omit<Draft, 'team'>) => ({
  name,
  spec: { strategy, targets, fallback },
})

const save = async (draft: Draft, opened: OwnRoute | null, reload: () => void): Promise<void> => {
  if (!opened) {
    const { name, team } = draft
    await write('POST', '/routes', { name, team, spec: specOf(draft) })
    toast(words.created(name))
    return reload()
  }
  const { id, name, rev, spec } = opened
  const back = patchOf({ name, ...spec, strategy: spec.strategy ?? null })
  await changeRecord({
    path: `/routes/${id}`,
    name,
    rev,
    patch: patchOf(draft),
    back,
    done: words.saved(name),
    after: reload,
  })
}

const Lines = ({
  name,
  label,
  text,
  isRequired = false,
}: {
  readonly name: string
  readonly label: string
  readonly text: string
  readonly isRequired?: boolean
}) => (
  <label class="field">
    {label}
    <textarea class="mono" name={name} rows={4} required={isRequired} spellcheck={false} defaultValue={text} />
  </label>
)

type FieldsProps = { readonly opened: OwnRoute | null; readonly teams: readonly TeamRecord[] }

const Fields = ({ opened, teams }: FieldsProps) => (
  <>
    <div class="fields">
      <label class="field">
        {words.name}
        <input name="name" required data-focus maxLength={128} autocomplete="off" defaultValue={opened?.name ?? ''} />
      </label>
      {opened ? (
        <input type="hidden" name="team" value={opened.team} />
      ) : (
        <label class="field">
          {words.team}
          <select name="team">
            {teams.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
      )}
      <label class="field">
        {words.strategy}
        <select name="strategy">
          <option value="">{words.usual}</option>
          {STRATEGIES.map((name) => (
            <option key={name} value={name} selected={name === opened?.spec.strategy}>
              {name}
            </option>
          ))}
        </select>
      </label>
    </div>
    <Lines name="targets" label={words.targets} text={opened ? linesOf(opened.spec.targets) : ''} isRequired />
    <p class="small dim">{words.about}</p>
    <Lines name="fallback" label={words.fallback} text={opened ? linesOf(opened.spec.fallback) : ''} />
  </>
)

type RouteDialogProps = DialogEnd & { readonly route: OwnRoute | null; readonly teams: readonly TeamRecord[] }

/** The first send shows the plan, the next one of the same route stores it. */
const RouteDialog = ({ route, teams, close, reload }: RouteDialogProps) => {
  const [opened] = useState(route)
  const checked = useSignal<{ readonly draft: string; readonly plan: ShownPlan } | null>(null)
  const send = async (fields: FormData) => {
    const draft = draftIn(fields)
    if (checked.value?.draft === JSON.stringify(draft)) {
      await save(draft, opened, reload)
      return close()
    }
    const { name, team } = draft
    const plan = await write<ShownPlan>('POST', '/routes/test', {
      name,
      team,
      spec: { ...opened?.spec, ...specOf(draft) },
    })
    checked.value = { draft: JSON.stringify(draft), plan }
  }
  const onInput = () => {
    checked.value = null
  }
  return (
    <Dialog title={opened ? words.edit(opened.name) : words.create} onClose={close} wide>
      <Form send={send} close={close} submit={checked.value ? keysWords.form.save : words.check} onInput={onInput}>
        <Fields opened={opened} teams={teams} />
        {checked.value && <Plan plan={checked.value.plan} />}
      </Form>
    </Dialog>
  )
}

const remove = ({ id, name, team, rev, spec }: OwnRoute, reload: () => void) =>
  attempt(async () => {
    await write('DELETE', `/routes/${id}`, undefined, { rev })
    const undo = () =>
      void attempt(async () => {
        await write('POST', '/routes', { name, team, spec })
        toast(keysWords.undone(name))
        reload()
      })
    toast(words.deleted(name), { undo })
    reload()
  })

type OwnRowProps = {
  readonly route: OwnRoute
  readonly team: string
  readonly requests: number | undefined
  readonly edited: Signal<OwnRoute | null | undefined>
  readonly reload: () => void
}

const OwnRow = ({ route, team, requests, edited, reload }: OwnRowProps) => {
  const { name, spec, shadowed, managed } = route
  const may = managed === 'api' && hasRole('admin', { team: route.team })
  return (
    <li>
      <div class="routes-target">
        <span>
          <strong>{name}</strong> <span class="dim">{words.of(team)}</span>
          {shadowed && <span class="badge warn">{words.hidden}</span>}
        </span>
        <span class="small dim">{linesOf([...spec.targets, ...spec.fallback]).replaceAll('\n', ', ')}</span>
        {requests !== undefined && <span class="small">{texts.list.requests(requests)}</span>}
      </div>
      {may && (
        <div class="row">
          <button
            type="button"
            class="button quiet small"
            aria-label={words.edit(name)}
            onClick={() => {
              edited.value = route
            }}
          >
            {words.editShort}
          </button>
          <button
            type="button"
            class="button quiet small"
            aria-label={words.remove(name)}
            onClick={() => void remove(route, reload)}
          >
            {words.removeShort}
          </button>
        </div>
      )}
    </li>
  )
}

type OwnRoutesProps = {
  readonly activity: RoutesActivity | undefined
  readonly team: readonly string[]
  readonly changed: () => void
}

export const OwnRoutes = ({ activity, team, changed }: OwnRoutesProps) => {
  const list = useResource(`own routes ${team}`, () => readAll<OwnRoute>('/routes', { team, sort: 'name' }, MOST))
  const teams = useResource('teams of routes', () => readAll<TeamRecord>('/teams', { sort: 'name' }, MOST))
  /** The route of the dialog; null: a new one; undefined: it is closed. */
  const edited = useSignal<OwnRoute | null | undefined>(undefined)
  const reload = () => {
    list.reload()
    changed()
  }
  const names = new Map(teams.value?.data.map(({ id, name }) => [id, name]))
  const requests = new Map(activity?.data.flatMap((one) => (one.id === null ? [] : [[one.id, one.requests] as const])))
  const writable = teams.value?.data.filter(({ id }) => hasRole('admin', { team: id })) ?? []
  return (
    <section class="stack" aria-label={words.title}>
      <div class="card-title">
        <h2>{words.title}</h2>
        {writable.length > 0 && (
          <button
            type="button"
            class="button"
            onClick={() => {
              edited.value = null
            }}
          >
            {words.create}
          </button>
        )}
      </div>
      {list.problem && <Failed problem={list.problem} retry={list.reload} />}
      {list.value?.data.length === 0 && <Empty title={words.none} />}
      <ul class="routes-own">
        {list.value?.data.map((route) => (
          <OwnRow
            key={route.id}
            route={route}
            team={names.get(route.team) ?? route.team}
            requests={requests.get(route.id)}
            edited={edited}
            reload={reload}
          />
        ))}
      </ul>
      {list.value?.hasMore && <p class="dim">{words.first(MOST)}</p>}
      {edited.value !== undefined && (
        <RouteDialog
          route={edited.value}
          teams={writable}
          reload={reload}
          close={() => {
            edited.value = undefined
          }}
        />
      )}
      <ConflictDialog />
    </section>
  )
}
