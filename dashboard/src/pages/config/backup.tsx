/** Backup: the last one that is known, the commands, and what it contains. For operators of all teams. */
import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { BACKUP_STATE } from '../../../../src/server/answers/system.ts'
import { hasRole, read, useResource } from '../../api.ts'
import { bytes, moment } from '../../format.ts'
import { Code, Failed, Loading, Time } from '../../parts/states.tsx'
import { PREFIX } from '../../root.ts'
import { now } from '../../store.ts'
import { setup } from '../../words/setup.ts'
import { Needs } from './needs.tsx'

const { backup: text } = setup

type BackupState = Shown<typeof BACKUP_STATE>

const EVERY = 30_000
/** ms */
const OLD = 7 * 86_400_000

const Last = ({ last }: Pick<BackupState, 'last'>) => (
  <section class="panel">
    <h2>{text.last}</h2>
    {last === null ? (
      <p class="warn">▲ {text.none}</p>
    ) : (
      <>
        <p>
          <Time at={last.at}>{moment(Date.parse(last.at))}</Time>{' '}
          <span class="dim">{text.about(bytes(last.bytes), last.usage)}</span>
        </p>
        {now.value - Date.parse(last.at) > OLD && <p class="warn">▲ {text.old}</p>}
      </>
    )}
    <p class="dim">{text.others}</p>
  </section>
)

const How = ({ folder }: Pick<BackupState, 'folder'>) => {
  const file = `headgate-${new Date(now.value).toISOString().slice(0, 10)}.tar.gz`
  const address = `${location.origin}${PREFIX}/admin/api/v1/system/backup`
  return (
    <section class="stack">
      <h2>{text.how}</h2>
      <p>{text.cli}</p>
      <Code text={`cd '${folder}' && headgate backup ${file}`} />
      <p>{text.api}</p>
      <Code text={`curl -X POST -H "Authorization: Bearer $HEADGATE_ADMIN_TOKEN" -o ${file} \\\n  ${address}`} />
      <p>{text.restore}</p>
      <Code text={`cd '${folder}' && headgate restore ${file}`} />
    </section>
  )
}

export const BackupSection = () => {
  const isOperator = hasRole('operator', 'all')
  const { value, problem, reload } = useResource(
    isOperator ? 'backup' : null,
    () => read<BackupState>('/system/backup'),
    { every: EVERY },
  )
  if (!isOperator) return <Needs why={text.needs} />
  return (
    <div class="stack">
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && !problem && <Loading rows={3} />}
      {value && (
        <>
          <Last {...value} />
          <How {...value} />
          <section class="stack">
            <h2>{text.contents}</h2>
            {value.postgres && <p class="warn">▲ {text.postgres}</p>}
            <p>{text.has}</p>
            <p>{text.hasNot}</p>
          </section>
        </>
      )}
    </div>
  )
}
