// An editor with the client of the ACP SDK. It starts a command in a directory, sends it prompts,
// and answers questions by rules: the first whose text is in the question names the kind of the
// option to choose. A prompt that is null closes the session and opens it again, with its
// conversation. It prints what happens as JSON.
//
//   node editor.mjs VERSION DIR PROMPTS RULES COMMAND ARG…
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';

const [version, cwd, prompts, rules, command, ...args] = process.argv.slice(2);
const acp = await import('@agentclientprotocol/sdk' + (version === '2' ? '/experimental/v2' : ''));
const print = what => console.log(JSON.stringify(what));
const golem = spawn(command, args, { cwd, stdio: ['pipe', 'pipe', 'inherit'] });
const ended = new Promise(done => golem.on('exit', done));

const names = acp.methods;
let idle = () => {};
const app = acp.client({ name: 'editor' });
app.onNotification(names.client.session.update, ({ params }) => {
  print({ update: params.update });
  if (params.update.sessionUpdate === 'state_update' && params.update.state === 'idle') idle(params.update.stopReason);
});
app.onRequest(names.client.session.requestPermission, ({ params }) => {
  const text = JSON.stringify(params);
  const [, kind] = JSON.parse(rules).find(([part]) => text.includes(part)) ?? [];
  const option = params.options.find(o => o.kind === kind);
  print({ question: params, kind: option?.kind ?? 'none' });
  return { outcome: option ? { outcome: 'selected', optionId: option.optionId } : { outcome: 'cancelled' } };
});
for (const method of Object.values(names.client.fs ?? {})) {
  app.onRequest(method, ({ params }) => { print({ files: method, params }); return { content: '' }; });
}

await app.connectWith(acp.ndJsonStream(Writable.toWeb(golem.stdin), Readable.toWeb(golem.stdout)), async ctx => {
  const about = { name: 'editor', version: '1' };
  const hello = await ctx.request(names.agent.initialize, version === '2' ? { protocolVersion: acp.PROTOCOL_VERSION, info: about, capabilities: {} }
    : { protocolVersion: acp.PROTOCOL_VERSION, clientInfo: about, clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true } });
  print({ hello });
  const { sessionId } = await ctx.request(names.agent.session.new, { cwd, mcpServers: [] });
  print({ session: sessionId });
  for (const text of JSON.parse(prompts)) {
    if (text === null) {
      await ctx.request(names.agent.session.close, { sessionId });
      print({ closed: sessionId });
      const again = { sessionId, cwd, mcpServers: [] };
      if (version === '2') await ctx.request(names.agent.session.resume, { ...again, replayFrom: { type: 'start' } });
      else await ctx.request(names.agent.session.load, again);
      continue;
    }
    const over = new Promise(done => { idle = done; });
    const result = await ctx.request(names.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] });
    print({ stop: version === '2' ? await over : result.stopReason });
  }
  const { sessions } = await ctx.request(names.agent.session.list, {}).catch(() => ({ sessions: [] }));
  print({ sessions });
});
golem.stdin.end();
print({ code: await ended });
