/** A copy of the file in the browser: checked by the gateway's own loader, compared, then downloaded or copied. */
import { useSignal } from '@preact/signals'
import { type ApiProblem, hasRole, offlineSince, problemIn, read, write } from '../../api.ts'
import { LineDifference } from '../../parts/line-difference.tsx'
import { Copy, Failed } from '../../parts/states.tsx'
import { useId } from '../../parts/use-id.ts'
import { config as texts } from '../../words/config.ts'
import { en } from '../../words/en.ts'
import { CompletingText } from './completing-text.tsx'
import { began, download, startWith, text } from './edited-text.ts'
import { CopyProblems, ProblemList } from './problems.tsx'
import { ReloadButton } from './reloads.tsx'
import { type CheckedCopy, type ShownConfig, valueText, type WrittenText } from './shapes.ts'

const openFile = async (input: HTMLInputElement): Promise<void> => {
  const [file] = input.files ?? []
  if (file) startWith(await file.text())
  input.value = ''
}

/** The text with a comment on the variables that it needs. */
const commented = ({ text, variables }: WrittenText): string => {
  const lines = [texts.edit.generated, ...(variables.length > 0 ? [texts.edit.needed(variables.join(', '))] : [])]
  return [...lines.map((line) => `# ${line}`), text ?? ''].join('\n')
}

const Difference = () =>
  began.value === text.value ? (
    <p class="dim">{texts.edit.noDifference}</p>
  ) : (
    <section class="stack">
      <h3>{texts.edit.difference}</h3>
      <LineDifference label={texts.edit.difference} before={began.value} after={text.value} />
    </section>
  )

const Changes = ({ changes, config }: { readonly changes: readonly string[]; readonly config: ShownConfig | null }) => {
  if (changes.length === 0) return <p>{texts.edit.same}</p>
  return (
    <>
      <h3>{texts.edit.changes}</h3>
      <ul class="config-problems">
        {changes.map((path) => {
          const setting = config?.settings.find(({ name }) => name === path)
          return (
            <li key={path}>
              <span class="mono">{path}</span>
              {setting && (
                <span class="dim">
                  {texts.edit.runs(valueText(setting.value) ?? texts.settings.notSet, setting.origin)}
                </span>
              )}
            </li>
          )
        })}
      </ul>
    </>
  )
}

/** What the copy does to routes, as the gateway would plan them now. */
const Routes = ({ routes }: Pick<CheckedCopy, 'routes'>) => {
  const shown = (targets: readonly string[] | null) =>
    targets === null ? texts.edit.noRoute : targets.length === 0 ? texts.edit.noTarget : targets.join(' → ')
  return (
    <>
      <h3>{texts.edit.routes}</h3>
      {routes.length === 0 ? (
        <p class="dim">{texts.edit.sameRoutes}</p>
      ) : (
        <ul class="config-problems">
          {routes.map(({ model, before, after }) => (
            <li key={model}>
              <strong class="mono">{model}</strong>
              <span class="dim">{texts.edit.routeBefore(shown(before))}</span>
              <span>{texts.edit.routeAfter(shown(after))}</span>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

type Checked = { readonly of: string; readonly result: CheckedCopy }

const Result = ({ checked, config }: { readonly checked: Checked; readonly config: ShownConfig | null }) => {
  const { ok, problems, warnings, changes, routes } = checked.result
  return (
    <section class="panel" role="status">
      <div class="row">
        <strong class={ok ? 'ok' : 'bad'}>
          <span aria-hidden="true">{ok ? '✓' : '✗'}</span> {ok ? texts.edit.ok : texts.edit.bad(problems.length)}
        </strong>
        {problems.length > 0 && <CopyProblems problems={problems} />}
      </div>
      {checked.of !== text.value && <p class="warn">{texts.edit.outdated}</p>}
      {!ok && <ProblemList problems={problems} />}
      {warnings.map((warning) => (
        <p key={warning} class="warn">
          {warning}
        </p>
      ))}
      {ok && <Changes changes={changes} config={config} />}
      {ok && changes.length > 0 && <Routes routes={routes} />}
    </section>
  )
}

export const Edit = ({ config }: { readonly config: ShownConfig | null }) => {
  const textId = useId()
  const checked = useSignal<Checked | null>(null)
  const problem = useSignal<ApiProblem | null>(null)
  const isBusy = useSignal(false)
  const refused = useSignal<readonly string[]>([])
  const start = async () => {
    isBusy.value = true
    problem.value = null
    try {
      const written = await read<WrittenText>('/config/text')
      refused.value = written.differences
      if (written.text !== null) startWith(commented(written))
    } catch (error) {
      problem.value = problemIn(error)
    }
    isBusy.value = false
  }
  const why = hasRole('operator', 'all')
    ? offlineSince.value === null
      ? null
      : en.states.offlineWrite
    : texts.edit.needs
  const check = async () => {
    const of = text.value
    isBusy.value = true
    problem.value = null
    try {
      checked.value = { of, result: await write<CheckedCopy>('POST', '/config/check', of) }
    } catch (error) {
      problem.value = problemIn(error)
    }
    isBusy.value = false
  }
  return (
    <div class="stack">
      <p>{texts.edit.about}</p>
      <div class="row">
        <label class="button config-open">
          {texts.edit.open}
          <input
            type="file"
            accept=".yaml,.yml,text/yaml"
            class="sr-only"
            onChange={({ currentTarget }) => void openFile(currentTarget)}
          />
        </label>
        <button
          type="button"
          class="button"
          disabled={isBusy.value || !hasRole('admin', 'all') || offlineSince.value !== null}
          onClick={() => void start()}
        >
          {texts.edit.start}
        </button>
        <span class="dim small">{hasRole('admin', 'all') ? texts.edit.startAbout : texts.edit.startNeeds}</span>
      </div>
      {refused.value.length > 0 && (
        <section class="panel" role="status">
          <p class="bad">{texts.edit.unwritten}</p>
          <ul class="config-problems">
            {refused.value.map((line) => (
              <li key={line} class="mono">
                {line}
              </li>
            ))}
          </ul>
        </section>
      )}
      <div class="field">
        <label for={textId}>{texts.edit.text}</label>
        <CompletingText
          id={textId}
          value={text.value}
          onInput={(next) => {
            text.value = next
          }}
        />
      </div>
      <div class="row">
        <button
          type="button"
          class="button primary"
          disabled={isBusy.value || why !== null || text.value === ''}
          onClick={() => void check()}
        >
          {isBusy.value ? texts.edit.checking : texts.edit.check}
        </button>
        <button type="button" class="button" disabled={text.value === ''} onClick={() => download(text.value)}>
          {texts.edit.download}
        </button>
        <Copy text={text.value} label={texts.edit.copy} />
        {checked.value?.result.ok && <ReloadButton />}
        {why !== null && <span class="dim">{why}</span>}
      </div>
      {problem.value && <Failed problem={problem.value} retry={() => void check()} />}
      {checked.value && <Result checked={checked.value} config={config} />}
      {text.value !== '' && <Difference />}
    </div>
  )
}
