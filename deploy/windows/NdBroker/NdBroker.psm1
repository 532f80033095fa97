# SPDX-License-Identifier: Apache-2.0
# Objects of PowerShell from the answers of ndctl, for PowerShell 5.1 and later. ndctl.exe is beside the broker, in the
# path, or named by $env:NDCTL.
Set-StrictMode -Version Latest

function Find-Ndctl {
    if ($env:NDCTL) { return $env:NDCTL }
    $installed = Join-Path $env:ProgramFiles 'NdBroker\ndctl.exe'
    if (Test-Path -LiteralPath $installed) { return $installed }
    return (Get-Command -Name 'ndctl.exe' -CommandType Application -ErrorAction Stop | Select-Object -First 1).Source
}

# Runs ndctl with these words and returns the objects of its answer. An error of ndctl is an error record with its text;
# the exit code is its error id, as docs/ndctl.md lists them.
function Invoke-Ndctl {
    [CmdletBinding()]
    param(
        [Parameter(Mandatory, Position = 0)] [string[]] $Words,
        [string] $Address
    )
    $options = @('-o', 'json', '--no-pager', '--color', 'never')
    if ($Address) { $options += @('--address', $Address) }
    $failure = [System.IO.Path]::GetTempFileName()
    try {
        $former = [Console]::OutputEncoding
        try {
            [Console]::OutputEncoding = [System.Text.UTF8Encoding]::new($false)
            $answer = (& (Find-Ndctl) @Words @options 2> $failure) -join "`n"
            $code = $LASTEXITCODE
        } finally {
            [Console]::OutputEncoding = $former
        }
        if ($code -ne 0) {
            $text = [System.IO.File]::ReadAllText($failure).Trim()
            Write-Error -Message $text -ErrorId "ndctl.$code" -TargetObject ($Words -join ' ')
            return
        }
    } finally {
        Remove-Item -LiteralPath $failure
    }
    if (-not $answer) { return }
    $parsed = $answer | ConvertFrom-Json
    if ($parsed.PSObject.Properties['items']) { return $parsed.items }
    return $parsed
}

# One function for each noun of ndctl: all objects, or those with these names.
$nouns = [ordered]@{
    Adapter = 'adapter'; Connection = 'connection'; Endpoint = 'endpoint'; Listener = 'listener'
    MemoryRegion = 'mr'; Port = 'port'; QueuePair = 'qp'; Session = 'session'
}
foreach ($name in $nouns.Keys) {
    $noun = $nouns[$name]
    $body = {
        [CmdletBinding()]
        param(
            [Parameter(Position = 0, ValueFromPipelineByPropertyName)] [Alias('Id')] [string[]] $Name,
            [string] $Address
        )
        process {
            if (-not $Name) { return Invoke-Ndctl -Words @($noun, 'list') -Address $Address }
            foreach ($each in $Name) { Invoke-Ndctl -Words @($noun, 'show', $each) -Address $Address }
        }
    }.GetNewClosure()
    Set-Item -Path "function:script:Get-Ndb$name" -Value $body
}

function Get-NdbStatus {
    [CmdletBinding()] param([string] $Address)
    Invoke-Ndctl -Words @('status') -Address $Address
}

function Get-NdbHistory {
    [CmdletBinding()] param([string] $Address)
    Invoke-Ndctl -Words @('history') -Address $Address
}

# Ends connections.
function Stop-NdbConnection {
    [CmdletBinding(SupportsShouldProcess, ConfirmImpact = 'High')]
    param(
        [Parameter(Mandatory, Position = 0, ValueFromPipelineByPropertyName)] [Alias('Id')] [string[]] $Name,
        [string] $Address
    )
    process {
        foreach ($each in $Name) {
            if ($PSCmdlet.ShouldProcess($each, 'End the connection')) {
                Invoke-Ndctl -Words @('connection', 'kill', $each, '--yes') -Address $Address
            }
        }
    }
}

function Enable-NdbAdapter {
    [CmdletBinding()] param([Parameter(Mandatory, Position = 0)] [string] $Name, [string] $Address)
    Invoke-Ndctl -Words @('adapter', 'enable', $Name) -Address $Address
}

function Disable-NdbAdapter {
    [CmdletBinding(SupportsShouldProcess, ConfirmImpact = 'High')]
    param([Parameter(Mandatory, Position = 0)] [string] $Name, [string] $Address)
    if ($PSCmdlet.ShouldProcess($Name, 'End every connection of the adapter')) {
        Invoke-Ndctl -Words @('adapter', 'disable', $Name, '--yes') -Address $Address
    }
}

Export-ModuleMember -Function 'Invoke-Ndctl', 'Get-Ndb*', 'Stop-NdbConnection', 'Enable-NdbAdapter', 'Disable-NdbAdapter'
