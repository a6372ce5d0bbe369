// The file system that Go's package os uses in the Worker, in the origin private file system
// of the browser. Golem keeps only journals in it, below /journal: files of the workspace go
// another way. The Web Lock of a workspace sees to it that one Worker uses a directory.

const O = {O_WRONLY: 1, O_RDWR: 2, O_CREAT: 0o100, O_EXCL: 0o200, O_TRUNC: 0o1000, O_APPEND: 0o2000, O_DIRECTORY: 0o200000};
const maxHeld = 16; // access handles of closed files that stay open, because to open one is slow

const fail = code => Object.assign(new Error(code), {code});

// codes are Go's names for exceptions of the browser.
const codes = {NotFoundError: 'ENOENT', TypeMismatchError: 'ENOTDIR', InvalidModificationError: 'ENOTEMPTY', QuotaExceededError: 'ENOSPC',
	NoModificationAllowedError: 'EBUSY', InvalidStateError: 'EBUSY', NotAllowedError: 'EACCES', SecurityError: 'EACCES'};

// A node is a file or directory that was looked up. Its entries are null until they are read.
let inodes = 0;
const newNode = (handle, parent, name) => ({
	handle, parent, name, ino: ++inodes, isDirectory: handle.kind === 'directory', entries: null,
	access: null, memory: null, users: 0, modified: Date.now(),
});

let top = null;
const root = async () => top ??= newNode(await navigator.storage.getDirectory(), null, '');

async function read(dir) {
	if (dir.entries) return dir.entries;
	const entries = new Map();
	for await (const [name, handle] of dir.handle.entries()) entries.set(name, newNode(handle, dir, name));
	return dir.entries = entries;
}

// split returns the parts of an absolute path. There are no symlinks, so ".." is the parent.
function split(path) {
	const parts = [];
	for (const part of String(path).split('/')) {
		if (part === '..') parts.pop();
		else if (part !== '' && part !== '.') parts.push(part);
	}
	return parts;
}

async function find(parts) {
	let at = await root();
	for (const part of parts) {
		if (!at.isDirectory) throw fail('ENOTDIR');
		at = (await read(at)).get(part);
		if (!at) throw fail('ENOENT');
	}
	return at;
}

// findIn returns the directory of a path, the last part, and the node there if there is one.
async function findIn(path) {
	const parts = split(path);
	const name = parts.pop();
	if (name === undefined) throw fail('EINVAL');
	const dir = await find(parts);
	if (!dir.isDirectory) throw fail('ENOTDIR');
	return {dir, name, node: (await read(dir)).get(name)};
}

// hold opens the access handle of a file.
const held = new Set();
async function hold(node) {
	if (node.memory || node.access) return;
	for (const other of held) {
		if (held.size < maxHeld) break;
		if (other.users === 0) release(other);
	}
	node.access = await node.handle.createSyncAccessHandle();
	held.add(node);
}

function release(node) {
	node.access?.close();
	node.access = null;
	held.delete(node);
}

// detach gives the readers of a file its content, before its name goes away.
function detach(node) {
	if (node.users > 0 && node.access) {
		node.memory = new Uint8Array(node.access.getSize());
		node.access.read(node.memory, {at: 0});
	}
	release(node);
}

const files = new Map(); // by file descriptor
let lastFD = 100;

function file(fd) {
	const f = files.get(fd);
	if (!f) throw fail('EBADF');
	return f;
}

function size(node) {
	if (node.memory) return node.memory.length;
	return node.access ? node.access.getSize() : 0;
}

async function stat(node) {
	if (!node.isDirectory && !node.memory && !node.access) await hold(node);
	return statNow(node);
}

const statNow = node => ({
	dev: 1, ino: node.ino, mode: node.isDirectory ? 0o40700 : 0o100600, nlink: 1, uid: 0, gid: 0, rdev: 0,
	size: node.isDirectory ? 0 : size(node), blksize: 4096, blocks: 0,
	atimeMs: node.modified, mtimeMs: node.modified, ctimeMs: node.modified, isDirectory: () => node.isDirectory,
});

async function open(path, flags) {
	const {dir, name, node: old} = split(path).length === 0 ? {node: await root()} : await findIn(path);
	let node = old;
	if (!node) {
		if (!(flags & O.O_CREAT)) throw fail('ENOENT');
		node = newNode(await dir.handle.getFileHandle(name, {create: true}), dir, name);
		dir.entries.set(name, node);
	} else if ((flags & O.O_CREAT) && (flags & O.O_EXCL)) {
		throw fail('EEXIST');
	}
	if (node.isDirectory) {
		if (flags & (O.O_WRONLY | O.O_RDWR)) throw fail('EISDIR');
	} else {
		if (flags & O.O_DIRECTORY) throw fail('ENOTDIR');
		await hold(node);
		if (flags & O.O_TRUNC) resize(node, 0);
	}
	node.users++;
	files.set(++lastFD, {node, at: 0, flags});
	return lastFD;
}

function close(fd) {
	file(fd).node.users--;
	files.delete(fd);
}

function resize(node, length) {
	if (node.memory) {
		const resized = new Uint8Array(length);
		resized.set(node.memory.subarray(0, length));
		node.memory = resized;
	} else {
		node.access.truncate(length);
	}
	node.modified = Date.now();
}

function readAt(fd, buffer, offset, length, position) {
	const f = file(fd);
	if (f.node.isDirectory) throw fail('EISDIR');
	const at = position ?? f.at;
	const into = buffer.subarray(offset, offset + length);
	let count = 0;
	if (f.node.memory) {
		const from = f.node.memory.subarray(at, at + length);
		into.set(from);
		count = from.length;
	} else if (at < size(f.node)) {
		count = f.node.access.read(into, {at});
	}
	if (position === null) f.at += count;
	return count;
}

function writeAt(fd, buffer, offset, length, position) {
	if (fd <= 2) return fs.writeSync(fd, buffer.subarray(offset, offset + length));
	const f = file(fd);
	if (!(f.flags & (O.O_WRONLY | O.O_RDWR))) throw fail('EBADF');
	const at = f.flags & O.O_APPEND ? size(f.node) : position ?? f.at;
	const from = buffer.subarray(offset, offset + length);
	if (f.node.memory) {
		if (f.node.memory.length < at + length) resize(f.node, at + length);
		f.node.memory.set(from, at);
	} else if (f.node.access.write(from, {at}) < length) {
		throw fail('ENOSPC');
	}
	f.node.modified = Date.now();
	if (position === null) f.at = at + length;
	return length;
}

async function remove(path, directory) {
	const {dir, name, node} = await findIn(path);
	if (!node) throw fail('ENOENT');
	if (node.isDirectory !== directory) throw fail(directory ? 'ENOTDIR' : 'EISDIR');
	if (!directory) detach(node);
	await dir.handle.removeEntry(name);
	dir.entries.delete(name);
}

async function rename(from, to) {
	const source = await findIn(from), target = await findIn(to);
	if (!source.node) throw fail('ENOENT');
	if (source.node.isDirectory || target.node?.isDirectory) throw fail('EISDIR');
	if (source.node === target.node) return;
	if (target.node) detach(target.node);
	const open = source.node.users > 0;
	release(source.node);
	try {
		await source.node.handle.move(target.dir.handle, target.name);
		source.dir.entries.delete(source.name);
		target.dir.entries.set(target.name, Object.assign(source.node, {parent: target.dir, name: target.name}));
	} finally {
		if (open) await hold(source.node);
	}
}

async function mkdir(path) {
	const {dir, name, node} = await findIn(path);
	if (node) throw fail('EEXIST');
	dir.entries.set(name, newNode(await dir.handle.getDirectoryHandle(name, {create: true}), dir, name));
}

// One operation at a time: those that wait for the browser must not meet others.
const waiting = [];
let busy = false;

function drain() {
	while (!busy && waiting.length > 0) {
		const {act, callback} = waiting.shift();
		const failed = e => callback(Object.assign(new Error(e.message), {code: e.code && typeof e.code === 'string' ? e.code : codes[e.name] ?? 'EIO'}));
		try {
			const value = act();
			if (value instanceof Promise) {
				busy = true;
				value.then(v => callback(null, v), failed).finally(() => { busy = false; drain(); });
			} else {
				callback(null, value);
			}
		} catch (e) {
			failed(e);
		}
	}
}

const operation = act => (...args) => {
	const callback = args.pop();
	waiting.push({act: () => act(...args), callback});
	drain();
};

const none = () => undefined;
const unsupported = () => { throw fail('ENOSYS'); };
const decoder = new TextDecoder();
let line = '';

const fs = globalThis.fs = {
	constants: O,
	// The Go program prints only when it crashes.
	writeSync(_, buffer) {
		line += decoder.decode(buffer, {stream: true});
		const end = line.lastIndexOf('\n');
		if (end >= 0) {
			console.error(line.slice(0, end));
			line = line.slice(end + 1);
		}
		return buffer.length;
	},
	open: operation(open),
	close: operation(close),
	read: operation(readAt),
	write: operation(writeAt),
	fsync: operation(fd => { file(fd).node.access?.flush(); }),
	fstat: operation(fd => statNow(file(fd).node)),
	stat: operation(async path => stat(await find(split(path)))),
	lstat: operation(async path => stat(await find(split(path)))),
	ftruncate: operation((fd, length) => resize(file(fd).node, length)),
	truncate: operation(async (path, length) => {
		const node = await find(split(path));
		if (node.isDirectory) throw fail('EISDIR');
		await hold(node);
		resize(node, length);
	}),
	readdir: operation(async path => [...(await read(await find(split(path)))).keys()]),
	mkdir: operation(mkdir),
	unlink: operation(path => remove(path, false)),
	rmdir: operation(path => remove(path, true)),
	rename: operation(rename),
	// The browser keeps neither permissions nor owners.
	chmod: operation(none), fchmod: operation(none), chown: operation(none), fchown: operation(none), lchown: operation(none), utimes: operation(none),
	readlink: operation(() => { throw fail('EINVAL'); }),
	link: operation(unsupported), symlink: operation(unsupported),
};

globalThis.process = {
	getuid: () => 0, getgid: () => 0, geteuid: () => 0, getegid: () => 0, getgroups: () => [],
	pid: 1, ppid: 0, umask: () => 0o77, cwd: () => '/', chdir: none,
};
globalThis.path = {resolve: (...parts) => '/' + split(parts.join('/')).join('/')};
