/** Earlier texts of headgate.yaml: what each changed, and how to go back to one. For admins of all teams. */
import { useSignal } from '@preact/signals'
import { hasRole, read, useResource } from '../../api.ts'
import { moment } from '../../format.ts'
import { LineDifference } from '../../parts/line-difference.tsx'
import { Code, Failed, Loading, Time } from '../../parts/states.tsx'
import { goToPage } from '../../store.ts'
import { setup } from '../../words/setup.ts'
import { download, startWith } from './edited-text.ts'

const { history: text } = setup

type Version = { readonly id: string; readonly at: string }
type Versions = { readonly data: readonly Version[]; readonly folder: string; readonly file: string }

/** Texts of versions do not change. */
const textOf = async (version: Version | undefined): Promise<string> =>
  version === undefined ? '' : (await read<{ readonly text: string }>(`/config/history/${version.id}`)).text

/** Secrets that were not kept. */
const hiddenIn = (text: string): number => new Set(text.match(/\$\{HIDDEN_\w+\}/g)).size

type ChosenProps = {
  readonly version: Version
  /** The version before it; undefined: it is the first one. */
  readonly before: Version | undefined
  readonly newest: Version
  readonly places: Pick<Versions, 'folder' | 'file'>
}

const Chosen = ({ version, before, newest, places }: ChosenProps) => {
  const { value, problem, reload } = useResource(`version ${version.id} ${newest.id}`, () =>
    Promise.all([version, before, newest].map(textOf)),
  )
  if (problem) return <Failed problem={problem} retry={reload} />
  if (!value) return <Loading rows={3} />
  const [own = '', earlier = '', now = ''] = value
  const hidden = hiddenIn(own)
  return (
    <div class="stack">
      {before && (
        <>
          <h3>{text.changed}</h3>
          <LineDifference label={text.changed} before={earlier} after={own} />
        </>
      )}
      {version !== newest && (
        <>
          <h3>{text.back}</h3>
          <LineDifference label={text.back} before={now} after={own} />
          {hidden === 0 ? (
            <>
              <p>{text.command}</p>
              <Code text={`cp '${places.folder}/${version.id}.yaml' '${places.file}'`} />
            </>
          ) : (
            <p class="warn">▲ {text.hidden(hidden)}</p>
          )}
        </>
      )}
      <div class="row">
        <button
          type="button"
          class="button"
          onClick={() => {
            startWith(own)
            goToPage('config', 'edit')
          }}
        >
          {text.edit}
        </button>
        <button type="button" class="button" onClick={() => download(own)}>
          {text.download}
        </button>
      </div>
    </div>
  )
}

const Entry = (props: ChosenProps) => {
  const isOpen = useSignal(false)
  const { version, newest } = props
  return (
    <li>
      <details
        onToggle={({ currentTarget }) => {
          isOpen.value = currentTarget.open
        }}
      >
        <summary>
          <Time at={version.at}>{moment(Date.parse(version.at))}</Time>
          {version === newest && <span class="badge">{text.newest}</span>}
        </summary>
        {isOpen.value && <Chosen {...props} />}
      </details>
    </li>
  )
}

export const History = () => {
  const isAdmin = hasRole('admin', 'all')
  const { value, problem, reload } = useResource(isAdmin ? 'config history' : null, () =>
    read<Versions>('/config/history'),
  )
  const [newest] = value?.data ?? []
  return (
    <section class="stack">
      <h2>{text.title}</h2>
      <p class="dim">{isAdmin ? text.about : text.needs}</p>
      {problem && <Failed problem={problem} retry={reload} />}
      {isAdmin && !value && !problem && <Loading rows={3} />}
      {value && !newest && <p class="dim">{text.none}</p>}
      {value && newest && (
        <ul class="lines config-versions" aria-label={text.title}>
          {value.data.map((version, at) => (
            <Entry key={version.id} version={version} before={value.data[at + 1]} newest={newest} places={value} />
          ))}
        </ul>
      )}
    </section>
  )
}
