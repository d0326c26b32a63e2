# Supervises one process in its tmux pane, or in its step of Slurm. Its tasks:
# - start the process, with the caller's limits and in a process group of its own;
# - write the output of the pane to the log, and its times to the index;
# - restart the process by its restart policy, when a port that it needs is free, or when the supervisor of the
#   experiment removes the file `hold`;
# - end the process when that file or `restart` appears, and end what the process leaves running, as a container
#   does (TERM, grace period, KILL);
# - as a step, tell the supervisor of the job the listening ports, the CPU, the output and the memory;
# - end with the exit code or signal of the process.
# tmux starts it (see start.py); without it tmux drops the last output of 1 to 4 of 100 processes. It is Perl because
# one runs beside every process: Python takes longer to start, and more memory.
# With SYMPHONY_STEP=1 it runs as a step of Slurm, without a terminal: the process writes to our pipe, its starts and
# ends are written to our standard output, and orders come from our standard input; its end ends the process, too.
# Arguments: folder of the process, attempt, shell, size limit of the log in bytes, restart policy, grace period in
# seconds, machine of `uname -m`, and the ports on which the process should listen.
# With the policy OnFailure or Always it restarts the process after 1, 2, 4, at most 60 seconds, and gives up at
# the sixth failure in a row; a process that has run for ten minutes starts with 1 second again. Forever never gives up
# and waits for at most 4 seconds.
use strict;
use Fcntl;
# `use warnings`, and modules that load it (Config, glob), would take a third of the start.
BEGIN { $^W = 1 }

my ($most_failures, $long, $longest_wait) = (5, 600, 2);
my ($folder, $attempt, $shell, $cap, $policy, $grace, $machine, @ports) = @ARGV;
# System call numbers of Linux; other systems lack most of these calls.
my ($prctl, $prlimit64, $sched_setaffinity) = "$^O $machine" eq 'linux x86_64' ? (157, 302, 203)
    : "$^O $machine" eq 'linux aarch64' ? (167, 261, 122) : ();
my ($pidfd_open, $pidfd_send_signal) = $prctl ? (434, 424) : ();
my ($set_parent_death_signal, $set_child_subreaper, $sigkill, $sigterm) = (1, 36, 9, 15);
my $set_foreground_group = $^O eq 'linux' ? 0x5410 : 0x80047476;
my $hires = eval { require Time::HiRes; Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()); 1 };
my ($log, $index, $size, $in_line, $lost, $why, $noted) = (undef, undef, 0, 0, 0, '', 0);
my ($restarts, $failures, $pause, $stopping, $child, $printed, %told) = (0, 0, 1, 0, 0, 0);
# Whether a port of the process was in use, and whether its last line had no newline.
my ($in_use, $cut) = (0, 0);
my $is_step = $ENV{SYMPHONY_STEP};
delete $ENV{SYMPHONY_STEP};
my ($launch, $output, $stopped) = ($is_step ? "$folder/launch\@$attempt.sh" : "$folder/launch.sh", undef, 0);

# Signals to the process must not end its supervisor, which ends after the process.
$SIG{$_} = 'IGNORE' for qw(INT QUIT TSTP TTIN TTOU PIPE USR1 USR2 XFSZ);
umask 077;
my $pipe;
if ($is_step) {
    pipe($pipe, $output) or die "pipe: $!\n";
    fcntl($pipe, F_SETFL, O_NONBLOCK);
    open(STDERR, '>&', $output) or die "pipe: $!\n";
}
else { sysopen($pipe, "$folder/pipe", O_RDWR | O_NONBLOCK) or die "$folder/pipe: $!\n" }
open_log();
pipe(my $wake, my $bell) or die "pipe: $!\n";
fcntl($_, F_SETFL, O_NONBLOCK) for $wake, $bell;
$SIG{CHLD} = sub { syswrite $bell, 'x' };
$SIG{TERM} = sub { $stopping = 1; syswrite $bell, 'x' };
# Slurm sends its signals to the process, too.
$SIG{TERM} = sub { stop_after_grace() } if $is_step;
# A closed window sends HUP only to us: forward it to the process group.
$SIG{HUP} = sub { $SIG{HUP} = 'IGNORE'; $stopping = 1; syswrite $bell, 'x'; kill 'HUP', -$child if $child };

# Makes daemons, which detach from the process, our children.
syscall($prctl, $set_child_subreaper, 1, 0, 0, 0) if $prctl;

# The first line through the pipe is the pid of the cat that tmux writes to; it must end with us.
my ($cat, $held, $status) = ($is_step ? -1 : undef, '', 0);
# When a file requested the end of the process, and whether it is held afterwards.
my ($asked, $to_hold, $to_restart, $orders, @unheard) = (0, 0, 0, '');
while (1) {
    # A process that is ended while it waits has no further start, or end, in its log.
    if (hold_back() && $stopping && !$is_step) { $status = $sigterm; last }
    my $began = now();
    # The user may have removed the log.
    open_log() if $restarts;
    end_line();
    mark($restarts ? "again $attempt $restarts" : "start $attempt");
    @unheard = @ports if $is_step;
    run_once();
    end_line();
    mark_end();
    unlink "$folder/restart" if $asked;
    ($asked, $to_restart) = (0, 0);
    if ($to_hold && !$stopping) {
        # With any policy, it starts again when the hold is removed.
        ($to_hold, $in_use, $pause, $failures) = (0, 0, 1, 0);
        $restarts++;
        next;
    }
    if (port_was_held()) { $restarts++; next }
    last if $stopping || $policy eq 'Never' || ($policy eq 'OnFailure' && !$status);
    ($pause, $failures) = (1, 0) if now() - $began > $long;
    $failures = $status ? $failures + 1 : 0;
    last if $failures > $most_failures && $policy ne 'Forever';
    keep_reading($pause);
    last if $stopping;
    $pause = $policy eq 'Forever' && $pause > 2 ? 4 : $pause < 30 ? $pause * 2 : 60;
    $restarts++;
}
print STDERR "\r\n[symphony: the log lost $lost bytes: $why]\r\n" if $lost;
syscall($pidfd_send_signal, $cat, $sigterm, 0, 0) if defined $cat && $cat >= 0;
if (my $signal = $status & 127) {
    default_signals();
    kill $signal, $$;
    sleep 1;
    exit 128 + $signal;
}
exit($status >> 8);

# Ends the process of a step, which has no terminal or window that could be closed.
sub stop_process {
    return if $stopped;
    stop_after_grace();
    kill 'TERM', -$child if $child;
    kill 'CONT', -$child if $child;
}

sub stop_after_grace {
    $stopping = 1;
    $stopped ||= now();
    $longest_wait = 0.2;
    syswrite $bell, 'x';
}

# Waits while the file `hold` exists: the supervisor of the experiment removes it, and sends SIGCHLD. Returns whether
# it had to wait.
sub hold_back {
    my $waited = 0;
    while (-e "$folder/hold" && !$stopping) {
        $waited = 1;
        wait_for_news(undef, 1);
        if (take_news()) { put($held); $held = '' }
    }
    return $waited;
}

# Ends the process group when the supervisor of the experiment requests it by a file.
sub end_if_asked {
    $to_hold ||= -e "$folder/hold";
    return if !$asked && !$to_hold && !$to_restart && !-e "$folder/restart";
    if (!$asked) { kill $_, -$child for 'TERM', 'CONT' }
    $asked ||= now();
    kill 'KILL', -$child if now() - $asked > $grace;
}

# Returns true if the process failed because one of its ports was in use, and waits until the port is free. Without
# SO_REUSEADDR, connections of an earlier start use it for a minute or more; another program may listen on it. Such
# failures do not count as attempts. The file `waiting` tells `symphony process` the reason.
sub port_was_held {
    return 0 if !$status || !$in_use || $stopping;
    $in_use = 0;
    my ($told, $holder) = ('', '');
    while (!$stopping && ($holder = holder_of_ports())) {
        if ($holder ne $told) {
            unlink "$folder/waiting";
            syswrite $_, "$holder\n" for grep { defined } open_own("$folder/waiting");
        }
        if (!$told) {
            my $break = $cut ? "\r\n" : '';
            print STDERR "$break\[symphony: waiting for $holder; the process starts again when the port is free]\r\n";
        }
        $told = $holder;
        keep_reading(0.5);
    }
    unlink "$folder/waiting";
    return $told && !$stopping;
}

# Returns `port 20001 (earlier connections)` or `port 20001 (nc, pid 12)` for the first port in use.
sub holder_of_ports {
    my %sockets = sockets_of_ports();
    for my $port (grep { exists $sockets{$_} } @ports) {
        my ($inode) = @{$sockets{$port}};
        return "port $port (" . ($inode ? owner_of_socket($inode) : 'earlier connections') . ')';
    }
    return '';
}

# Returns the inodes of the listening sockets, perhaps none, for each port in use.
sub sockets_of_ports {
    my %sockets;
    for my $table ('/proc/net/tcp', '/proc/net/tcp6') {
        open(my $rows, '<', $table) or next;
        while (<$rows>) {
            my @row = split;
            my ($port) = $row[1] =~ /:(\w{4})$/ or next;
            push @{$sockets{hex $port}}, $row[3] eq '0A' ? $row[9] : ();
        }
    }
    return %sockets;
}

# Reports the ports on which the process, or one below it, has begun to listen to the supervisor of the job.
sub tell_ports {
    my %sockets = sockets_of_ports();
    my %own = (grep { @{$sockets{$_} // []} } @unheard) ? files_of_tree() : ();
    my %heard = map { $_ => 1 } grep { grep { $own{"socket:[$_]"} } @{$sockets{$_} // []} } @unheard;
    syswrite(STDOUT, sprintf("%d listen %d\n", time(), $_)) for grep { $heard{$_} } @unheard;
    @unheard = grep { !$heard{$_} } @unheard;
}

# Returns the files and sockets that the processes below this one have opened.
sub files_of_tree {
    my (%opened, @pids);
    push @pids, children_of($$);
    while (defined(my $pid = pop @pids)) {
        push @pids, children_of($pid);
        opendir(my $files, "/proc/$pid/fd") or next;
        $opened{readlink("/proc/$pid/fd/$_") // ''} = 1 for readdir $files;
    }
    return %opened;
}

# Reports to the supervisor of the job: the CPU time of the process tree in ticks, the bytes that it printed, and its
# resident memory in pages.
sub tell_activity {
    # Without our own time, but with that of the children that we have reaped (cutime and cstime).
    my ($ticks, $pages, @pids) = (0, 0, children_of($$));
    my @own = stat_of($$);
    $ticks += $_ for @own[13, 14];
    while (defined(my $pid = pop @pids)) {
        my @stat = stat_of($pid) or next;
        $ticks += $_ for @stat[11 .. 14];
        $pages += $stat[21];
        push @pids, children_of($pid);
    }
    syswrite(STDOUT, sprintf("%d activity %d %d %d\n", time(), $ticks, $printed, $pages));
}

# Returns the fields of /proc/PID/stat from the state on, which proc(5) counts as the third.
sub stat_of {
    my ($pid) = @_;
    my $line = read_line("/proc/$pid/stat") // return;
    return split ' ', substr $line, rindex($line, ')') + 2;
}

sub children_of {
    my ($pid) = @_;
    opendir(my $threads, "/proc/$pid/task") or return;
    return map { split ' ', read_line("/proc/$pid/task/$_/children") // '' } grep { /^\d/ } readdir $threads;
}

sub owner_of_socket {
    my ($inode) = @_;
    opendir(my $pids, '/proc') or return 'another program';
    for my $pid (grep { /^\d+$/ } readdir $pids) {
        opendir(my $files, "/proc/$pid/fd") or next;
        for my $file (readdir $files) {
            next if (readlink("/proc/$pid/fd/$file") // '') ne "socket:[$inode]";
            return (read_line("/proc/$pid/comm") // 'a program') . ", pid $pid";
        }
    }
    return 'a program of another user';
}

# Starts the process and logs its output until its whole tree has ended and all output has been read.
sub run_once {
    my ($end, $deadline, $over, $supervisor) = ('', 0, 0, $$);
    $child = fork() // die "fork: $!\n";
    if (!$child) {
        # A foreground process group of its own: a process that signals its group does not reach its supervisor.
        setpgrp(0, 0);
        ioctl(STDIN, $set_foreground_group, pack('i', $$));
        default_signals();
        # Ctrl-Z in the window: no shell could resume the process.
        $SIG{TSTP} = 'IGNORE';
        if ($is_step) {
            open(STDIN, '<', '/dev/null');
            open(STDOUT, '>&', $output);
        }
        kill 'TERM', $$ if $stopping;
        end_with($supervisor);
        limit_as_the_caller();
        exec {$shell} $shell, $launch or die "$shell: $!\n";
    }
    setpgrp($child, $child);
    # A TERM during the fork did not reach the child.
    kill 'TERM', $child if $stopping;
    while (1) {
        wait_for_news($end || $over || $asked ? 0.05 : @unheard ? 0.25 : undef, !$end);
        if (take_news()) {
            my $found = $end ? index($held, $end) : -1;
            if ($found >= 0) {
                put(substr($held, 0, $found));
                $held = substr($held, $found + length $end);
                return;
            }
            # Keep a possible beginning of the end mark until the rest arrives.
            my $keep = $end ? overlap($held, $end) : 0;
            put(substr($held, 0, length($held) - $keep, '')) if length($held) > $keep;
        }
        reap();
        kill 'KILL', -$child if $child && $stopped && now() - $stopped > $grace;
        end_if_asked() if $child;
        tell_ports() if $child && @unheard;
        $over ||= now() unless $child;
        if ($over && !$end && end_the_rest($over)) {
            $end = "\x18\x1b]7777;symphony-end-$$-" . now() . "\x07";
            # Written to the terminal after all output of the process: when it is read, the log is complete.
            $deadline = now() + (say_end($end) ? 2 : 0.1);
        }
        if ($end && now() > $deadline) { put($held); $held = ''; return }
    }
}

sub default_signals { $SIG{$_} = 'DEFAULT' for grep { !/^(KILL|STOP|NUM\d+|__)/ } keys %SIG }

# Makes the process end with its supervisor, even if that is killed.
sub end_with {
    my ($supervisor) = @_;
    return if !$prctl;
    syscall($prctl, $set_parent_death_signal, $sigkill, 0, 0, 0);
    kill 'KILL', $$ if getppid() != $supervisor;
}

# Sets the limits, niceness and processors of the caller of `up` (see launch_file.py), as far as permitted.
sub limit_as_the_caller {
    sysopen(my $file, $launch, O_RDONLY | O_NONBLOCK) or return;
    # Its heading.
    <$file>;
    while (<$file> =~ /^# (nice|cpus|limit) ([-\d ]+)$/) {
        my ($what, @values) = ($1, map { $_ + 0 } split ' ', $2);
        setpriority(0, 0, $values[0]) if $what eq 'nice';
        if ($what eq 'cpus' && $sched_setaffinity) {
            my $mask = '';
            vec($mask, $_, 1) = 1 for @values;
            syscall($sched_setaffinity, 0, length $mask, $mask);
        }
        set_limit(@values) if $what eq 'limit' && $prlimit64;
    }
}

sub set_limit {
    my ($number, $soft, $hard) = @_;
    my $now = pack 'QQ', 0, 0;
    syscall($prlimit64, 0, $number, 0, $now);
    my (undef, $most) = unpack 'QQ', $now;
    for my $highest ($hard, $most) {
        my $wanted = pack 'QQ', $soft < $highest ? $soft : $highest, $highest;
        last if syscall($prlimit64, 0, $number, $wanted, 0) == 0;
    }
}

# Reaps children that have ended: the process itself, and its orphans.
sub reap {
    while ((my $pid = waitpid(-1, 1)) > 0) {
        ($status, $child) = ($?, 0) if $pid == $child;
        delete $told{$pid};
    }
}

# Ends the remaining tree of a process that has ended; returns whether nothing remains. Orphans become our children.
sub end_the_rest {
    my ($over) = @_;
    my @rest = left_to_us() or return 1;
    my $late = now() - $over > $grace;
    # Processes of another user, or stuck in the kernel, remain.
    return 1 if now() - $over > $grace + 5;
    for my $pid (@rest) {
        kill 'KILL', $pid if $late;
        kill 'TERM', $pid unless $told{$pid};
        kill 'CONT', $pid unless $told{$pid}++;
    }
    return 0;
}

# A tmux server of symphony that the process started has experiments of its own (see client.py).
sub left_to_us {
    my @children = split ' ', read_line("/proc/$$/task/$$/children") // '';
    return @children if !@children;
    opendir(my $files, 'tmux') or return @children;
    my %servers = map { (read_line("tmux/$_") // '') => 1 } grep { /\.pid$/ } readdir $files;
    return grep { !$servers{"$_ " . start_of($_)} } @children;
}

# Returns the start time of a process, 0 if it has ended.
sub start_of {
    my $line = read_line("/proc/$_[0]/stat") // return 0;
    return (split ' ', substr $line, rindex($line, ')') + 2)[19];
}

# Does not block, since a process may have replaced the file by a pipe.
sub read_line {
    sysopen(my $file, $_[0], O_RDONLY | O_NONBLOCK) or return undef;
    my $line = <$file>;
    chomp $line if defined $line;
    return $line;
}

# Reads output for some seconds: of processes that we cannot adopt without a subreaper.
sub keep_reading {
    my $until = now() + $_[0];
    while (!$stopping && (my $left = $until - now()) > 0) {
        wait_for_news($left, 1);
        reap();
        if (take_news()) { put($held); $held = '' }
    }
}

# The wait is limited, since a signal just before it may be noticed only after it.
sub wait_for_news {
    my ($seconds, $heeds_bell) = @_;
    $seconds = $longest_wait if !defined $seconds || $seconds > $longest_wait;
    my $ready = '';
    vec($ready, fileno($pipe), 1) = 1;
    vec($ready, fileno($wake), 1) = 1 if $heeds_bell;
    vec($ready, fileno(STDIN), 1) = 1 if $is_step && !$stopped;
    my $heard = select($ready, undef, undef, $seconds);
    sysread($wake, my $rung, 16);
    my $is_told = $is_step && !$stopped && $heard > 0 && vec($ready, fileno(STDIN), 1);
    obey() if $is_told;
}

# Handles orders to the supervisor of a step: end the process within a grace period, restart it, log a line, or report
# its activity, or its ports again. The end of the input ends the process, too.
sub obey {
    return stop_process() if !sysread(STDIN, $orders, 4096, length $orders);
    while ($orders =~ s/^(.*)\n//) {
        my $order = $1;
        if ($order =~ /^end ([\d.]+)$/) { $grace = $1; return stop_process() }
        $to_restart = 1 if $order eq 'restart';
        @unheard = @ports if $order eq 'ports';
        tell_activity() if $order eq 'activity';
        # Not through the pipe, in which it would count as output of the process.
        put("\r\n[symphony: $1]\r\n") if $order =~ /^tell (.*)/;
    }
    syswrite $bell, 'x';
}

sub take_news {
    my $got = sysread($pipe, my $data, 65536) or return 0;
    $held .= $data;
    $printed += $got;
    if (!defined $cat) {
        $held =~ s/^(\d+)\n// or return 0;
        # A pid may be reused, unlike a pidfd; -1 if there is none.
        $cat = $pidfd_open ? syscall($pidfd_open, $1 + 0, 0) : -1;
    }
    return 1;
}

sub mark_end {
    mark($status & 127 ? 'signal ' . ($status & 127) : 'exit ' . ($status >> 8));
}

# Monotonic seconds; without Time::HiRes those since the boot.
sub now {
    return Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) if $hires;
    return (split ' ', read_line('/proc/uptime') // time())[0];
}

sub say_end {
    return syswrite($output, $_[0]) if $is_step;
    sysopen(my $terminal, '/dev/tty', O_WRONLY | O_NONBLOCK | O_NOCTTY) or return 0;
    return syswrite($terminal, $_[0]);
}

sub open_log {
    ($log, $index) = map { open_own("$folder/$_") } 'log', 'index';
    $size = $log ? -s $log : 0;
    $in_line = $size && ends_in_line("$folder/log");
}

sub ends_in_line {
    sysopen(my $file, $_[0], O_RDONLY | O_NONBLOCK) or return 0;
    my $last = "\n";
    sysread($file, $last, 1) if sysseek($file, -1, 2);
    return $last ne "\n";
}

# Opens a file for appending, and replaces anything that is not a regular file.
sub open_own {
    my ($file) = @_;
    unlink $file if lstat $file and !-f _;
    sysopen(my $opened, $file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW, 0600) or return undef;
    return $opened;
}

sub mark {
    my ($what) = @_;
    my $clock = $hires ? Time::HiRes::time() : time();
    syswrite($index, sprintf("%.3f %d%s\n", $clock, $size, $what ? " $what" : '')) if $index;
    syswrite(STDOUT, sprintf("%.3f %s\n", $clock, $what)) if $is_step && $what;
    $noted = now();
}

sub rotate {
    close $log;
    close $index if $index;
    rename "$folder/log", "$folder/log.1";
    rename "$folder/index", "$folder/index.1";
    open_log();
    mark("more $attempt $restarts");
}

# A full disk must not stop the process: lost bytes are counted.
sub put {
    my ($data) = @_;
    return if $data eq '';
    $in_use ||= @ports && $data =~ /address already in use|EADDRINUSE/i;
    rotate() if $log && $size > 0 && $size + length($data) > $cap;
    if ($lost && $log) {
        my $note = "\n[symphony: $lost bytes of output lost: $why]\n";
        my $wrote = syswrite($log, $note);
        $size += $wrote if $wrote;
        $lost = 0 if $wrote && $wrote == length $note;
    }
    mark('') if now() - $noted >= 0.25;
    while (length $data) {
        my $wrote = $log && !$lost ? syswrite($log, $data) : undef;
        if (!$wrote) { $why = "$!" || 'no log' unless $lost; $lost += length $data; return }
        $size += $wrote;
        $in_line = substr($data, $wrote - 1, 1) ne "\n";
        substr($data, 0, $wrote, '');
    }
}

# Completes the last line, if the process or a killed supervisor left it without a newline.
sub end_line {
    $cut = $in_line;
    put("\n") if $cut;
}

sub overlap {
    my ($text, $mark) = @_;
    for my $length (reverse 1 .. length($mark) - 1) {
        return $length if length($text) >= $length && substr($text, -$length) eq substr($mark, 0, $length);
    }
    return 0;
}
