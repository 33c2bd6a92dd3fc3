/** The last reloads with what they changed, and a button for the next one. */
import { useSignal } from '@preact/signals'
import { hasRole, offlineSince, problemIn, read, refreshAll, useResource, write } from '../../api.ts'
import { moment } from '../../format.ts'
import { Empty, Failed, Loading, Time } from '../../parts/states.tsx'
import { toast } from '../../store.ts'
import { config as texts } from '../../words/config.ts'
import { en } from '../../words/en.ts'
import { History } from './history.tsx'
import { CopyProblems, ProblemList } from './problems.tsx'
import type { ConfigReload } from './shapes.ts'

/** ms between two readings: a changed file is reloaded by itself. */
const EVERY = 10_000
const MARKS = { changed: ['●', 'ok'], unchanged: ['○', 'dim'], refused: ['✗', 'bad'] } as const

/** Reads the configuration again, for those who may. */
export const ReloadButton = () => {
  const isBusy = useSignal(false)
  const why = hasRole('operator', 'all')
    ? offlineSince.value === null
      ? null
      : en.states.offlineWrite
    : texts.reloads.needs
  const reload = async () => {
    isBusy.value = true
    try {
      const { outcome } = await write<ConfigReload>('POST', '/system/reload')
      toast(texts.reloads.done[outcome], { tone: outcome === 'refused' ? 'bad' : 'plain' })
      refreshAll()
    } catch (error) {
      toast(problemIn(error).message, { tone: 'bad' })
    }
    isBusy.value = false
  }
  return (
    <>
      <button
        type="button"
        class="button"
        disabled={isBusy.value || why !== null}
        title={texts.reloads.reloadAbout}
        onClick={() => void reload()}
      >
        {texts.reloads.reload}
      </button>
      {why !== null && <span class="dim">{why}</span>}
    </>
  )
}

const Entry = ({ at, outcome, changes, warnings, problems }: ConfigReload) => {
  const [mark, tone] = MARKS[outcome]
  return (
    <li class="panel">
      <div class="row">
        <strong class={tone}>
          <span aria-hidden="true">{mark}</span> {texts.reloads.outcome[outcome]}
        </strong>
        <Time at={at}>{moment(Date.parse(at))}</Time>
        {problems.length > 0 && <CopyProblems problems={problems} />}
      </div>
      {problems.length > 0 && <ProblemList problems={problems} />}
      {changes.length > 0 && (
        <ul class="config-problems">
          {changes.map((change) => (
            <li key={change} class="mono">
              {change}
            </li>
          ))}
        </ul>
      )}
      {warnings.map((warning) => (
        <p key={warning} class="warn">
          {warning}
        </p>
      ))}
    </li>
  )
}

export const Reloads = () => {
  const { value, problem, isLoading, reload } = useResource(
    'reloads',
    () => read<{ readonly data: readonly ConfigReload[] }>('/config/reloads'),
    { every: EVERY },
  )
  return (
    <div class="stack">
      <div class="row">
        <ReloadButton />
        <span class="dim">{texts.reloads.reloadAbout}</span>
      </div>
      <History />
      <h2>{texts.reloads.title}</h2>
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && isLoading && <Loading />}
      {value?.data.length === 0 && (
        <Empty title={texts.reloads.none}>
          <p>{texts.reloads.noneAbout}</p>
        </Empty>
      )}
      <ul class="config-cards" aria-label={texts.reloads.title}>
        {value?.data.map((one) => (
          <Entry key={one.at} {...one} />
        ))}
      </ul>
    </div>
  )
}
